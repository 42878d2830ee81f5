package directory

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
)

// One winner per conflict class: a commit passes no conflicting session that is not confirmed.
func TestI1_CommitNeedsEveryConflictConfirmed(t *testing.T) {
	u, tg := usersIn(testHash, 1)[0], target(1)
	d := open(t, Config{})
	var fx Effects
	old := route(u, 1, owner(1), app("phone", identity.LevelSlave))
	login(t, d, old, epoch, &fx)
	fx.Reset()

	next := route(u, 2, owner(2), app("phone", identity.LevelSlave))
	reg, err := d.Register(tg, next, PolicyDevice, epoch)
	if err != nil || len(reg.Conflicts) != 1 || reg.Conflicts[0] != old {
		t.Fatalf("register: %+v, %v", reg, err)
	}
	// Another session of the same device comes between register and commit.
	between := route(u, 3, owner(3), app("phone", identity.LevelSlave))
	login(t, d, between, epoch, &fx)

	var c *Conflict
	if err := d.Commit(tg, reg.Candidate, next.Session, sessionsOf(reg.Conflicts), epoch, &fx); !errors.As(err, &c) {
		t.Fatalf("commit beside an unconfirmed session: %v", err)
	}
	if !slices.Equal(sessionsOf(c.Routes), []identity.SessionID{between.Session}) {
		t.Fatalf("conflict names %v", c.Routes)
	}
	if _, got := look(t, d, tg, u); len(got) != 1 || got[0] != between {
		t.Fatalf("the old route must stay visible until the commit: %v", got)
	}
	for range 2 { // a commit whose answer was lost is repeated
		if err := d.Commit(tg, reg.Candidate, next.Session, sessionsOf(c.Routes), epoch, &fx); err != nil {
			t.Fatal(err)
		}
	}
	if _, got := look(t, d, tg, u); len(got) != 1 || got[0] != next {
		t.Fatalf("after the commit: %v", got)
	}
	if len(fx.Transitions) != 0 {
		t.Fatalf("the user was online all the time: %+v", fx.Transitions)
	}
}

func TestI1_ConcurrentLoginsLeaveOneWinner(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		u, tg := usersIn(testHash, 1)[0], target(1)
		d := open(t, Config{})
		var fx Effects
		dev := app("phone", rapid.SampledFrom([]identity.Level{identity.LevelSlave, identity.LevelMaster}).Draw(rt, "level"))
		n := rapid.IntRange(2, 12).Draw(rt, "logins")
		regs, closed := make([]Registration, n), map[identity.SessionID]bool{}
		for i := range n {
			var err error
			if regs[i], err = d.Register(tg, route(u, i, owner(i%3), dev), PolicyDevice, epoch); err != nil {
				rt.Fatal(err)
			}
		}
		for _, i := range rapid.Permutation(slices.Collect(seq(n))).Draw(rt, "order") {
			id := sessionID(testHash, i)
			err := d.Commit(tg, regs[i].Candidate, id, nil, epoch, &fx)
			var c *Conflict
			if errors.As(err, &c) {
				for _, r := range c.Routes { // the owners close them
					closed[r.Session] = true
				}
				err = d.Commit(tg, regs[i].Candidate, id, sessionsOf(c.Routes), epoch, &fx)
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
		_, got := look(t, d, tg, u)
		if len(got) != 1 || closed[got[0].Session] || len(closed) != n-1 {
			rt.Fatalf("%d routes, %d closed of %d", len(got), len(closed), n)
		}
	})
}

func TestI1_LoginWaitsForARebuildThatMayHideAConflict(t *testing.T) {
	u, tg := usersIn(testHash, 1)[0], target(1)
	d := open(t, Config{RebuildWait: 2 * time.Second}, owner(1))
	next := route(u, 2, owner(2), app("phone", identity.LevelSlave))
	if _, err := d.Register(tg, next, PolicyDevice, epoch.Add(time.Second)); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("let in beside what is not known: %v", err)
	}
	unnamed := route(u, 3, owner(2), app("", identity.LevelSlave))
	if _, err := d.Register(tg, unnamed, PolicyDevice, epoch.Add(time.Second)); err != nil {
		t.Fatalf("conflicts with nobody: %v", err)
	}
	if _, err := d.Register(tg, next, PolicyDevice, epoch.Add(2*time.Second)); err != nil {
		t.Fatalf("the wait is bounded: %v", err)
	}
	if _, err := d.Register(tg, next, PolicyRejectNew, epoch.Add(2*time.Second)); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("reject_new needs certainty: %v", err)
	}
}

// A stale target changes nothing, whatever differs in it and whatever is called.
func TestI3_StaleTargetChangesNothing(t *testing.T) {
	u := usersIn(testHash, 1)[0]
	d := open(t, Config{})
	cur := target(1)
	var fx Effects
	r := route(u, 1, owner(1), app("phone", identity.LevelSlave))
	login(t, d, r, epoch, &fx)
	pending, err := d.Register(cur, route(u, 2, owner(1), app("phone", identity.LevelSlave)), PolicyDevice, epoch)
	if err != nil {
		t.Fatal(err)
	}
	fx.Reset()
	before, snapshot := d.SlotStats(testHash), *d.cells[testHash].dir

	stale := map[string]func(*slot.Target){
		"older term": func(x *slot.Target) { x.Term-- }, "newer term": func(x *slot.Target) { x.Term++ },
		"epoch": func(x *slot.Target) { x.ConfigEpoch++ }, "node": func(x *slot.Target) { x.LeaderNode = "a2" },
		"boot": func(x *slot.Target) { x.LeaderBoot = "b2" }, "slot id": func(x *slot.Target) { x.ID++ },
	}
	for name, change := range stale {
		tg := cur
		change(&tg)
		for call, err := range everyCall(d, tg, r, pending.Candidate, &fx) {
			var s *StaleTarget
			if !errors.As(err, &s) || s.Current != cur {
				t.Errorf("%s with a wrong %s: %v", call, name, err)
			}
		}
	}
	closed := cur
	closed.Hash++
	r.UID, r.Session = usersIn(closed.Hash, 1)[0], sessionID(closed.Hash, 1)
	for call, err := range everyCall(d, closed, r, 1, &fx) {
		if !errors.Is(err, ErrNotLeader) {
			t.Errorf("%s on a closed slot: %v", call, err)
		}
	}
	if after := d.SlotStats(testHash); after != before || len(fx.Transitions)+len(fx.Evicted)+len(fx.Rebuilt) > 0 {
		t.Fatalf("changed: %+v to %+v, effects %+v", before, after, fx)
	}
	if now := d.cells[testHash].dir; now.target != snapshot.target || now.events != snapshot.events {
		t.Fatal("target or events changed")
	}
	if _, got := look(t, d, cur, u); len(got) != 1 {
		t.Fatalf("routes %v", got)
	}
}

// everyCall makes each fenced call and returns its error by name.
func everyCall(d *Directory, tg slot.Target, r Route, candidate uint64, fx *Effects) map[string]error {
	out, one := map[string]error{}, []SessionSeq{{Session: r.Session, UID: r.UID, OwnerSeq: 9}}
	r.OwnerSeq++
	_, out["register"] = d.Register(tg, r, PolicyDevice, epoch)
	out["commit"] = d.Commit(tg, candidate, r.Session, []identity.SessionID{r.Session}, epoch, fx)
	out["abort"] = d.Abort(tg, candidate)
	out["unregister"] = d.Unregister(tg, r.Owner(), one, epoch, fx)
	_, out["touch"] = d.Touch(tg, r.Owner(), one, epoch, nil)
	_, out["restore"] = d.Restore(tg, r.Owner(), []Route{r}, true, epoch, fx, nil)
	out["reported"] = d.OwnerReported(tg, r.Owner(), epoch, fx)
	r.OwnerSeq--
	_, out["remove exact"] = d.RemoveExact(tg, r, epoch, fx)
	out["lookup"] = d.Lookup(tg, []identity.UID{r.UID}, &Found{})
	out["lookup sessions"] = d.LookupSessions(tg, []identity.SessionID{r.Session}, &Found{})
	out["revise"] = d.Revise(tg)
	out["resume"] = d.Resume(tg, epoch.Add(time.Hour))
	return out
}

func TestI3_NewerRevisionKeepsAndNewerTermEmpties(t *testing.T) {
	u := usersIn(testHash, 1)[0]
	d := open(t, Config{})
	var fx Effects
	login(t, d, route(u, 1, owner(1), app("", identity.LevelSlave)), epoch, &fx)
	revised := target(1)
	revised.Revision = 7
	if err := d.Open(revised, []Owner{owner(1)}, epoch); err != nil {
		t.Fatal(err)
	}
	if p, got := look(t, d, target(1), u); p != PresenceOnline || len(got) != 1 {
		t.Fatalf("a revision lost the route: %v %v", p, got)
	}
	if cur, _ := d.Target(testHash); cur != revised {
		t.Fatalf("target %+v", cur)
	}
	if err := d.Open(target(2), []Owner{owner(1)}, epoch); err != nil {
		t.Fatal(err)
	}
	if p, _ := look(t, d, target(2), u); p != PresenceUnknown {
		t.Fatalf("after a new term: %v", p)
	}
	var s *StaleTarget
	if err := d.Open(target(1), nil, epoch); !errors.As(err, &s) || s.Current.Term != 2 {
		t.Fatalf("an older term came back: %v", err)
	}
}

// After unregister at s nothing at or below s brings the route back, in any order of arrival.
func TestI4_NothingAtOrBelowUnregisterComesBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		u, tg, o := usersIn(testHash, 1)[0], target(1), owner(1)
		d := open(t, Config{})
		var fx Effects
		end := rapid.Uint64Range(1, 5).Draw(rt, "unregistered at")
		r := route(u, 1, o, app("phone", identity.LevelMaster))
		var candidates []uint64
		calls := []func(at uint64){
			func(at uint64) {
				r.OwnerSeq = at
				if reg, err := d.Register(tg, r, PolicyDevice, epoch); err == nil {
					candidates = append(candidates, reg.Candidate)
				}
			},
			func(uint64) {
				for _, c := range candidates {
					_ = d.Commit(tg, c, r.Session, nil, epoch, &fx)
				}
			},
			func(at uint64) {
				_, _ = d.Touch(tg, o, []SessionSeq{{Session: r.Session, OwnerSeq: at}}, epoch, nil)
			},
			func(at uint64) {
				r.OwnerSeq = at
				_, _ = d.Restore(tg, o, []Route{r}, false, epoch, &fx, nil)
			},
		}
		steps := rapid.SliceOfN(rapid.IntRange(0, len(calls)-1), 1, 20).Draw(rt, "calls")
		when := rapid.IntRange(0, len(steps)).Draw(rt, "unregister before")
		for i, c := range steps {
			if i == when {
				unregister(rt, d, r.Session, u, end, &fx)
			}
			calls[c](rapid.Uint64Range(1, end).Draw(rt, "seq"))
		}
		if when == len(steps) {
			unregister(rt, d, r.Session, u, end, &fx)
		}
		if p, got := look(t, d, tg, u); p != PresenceOffline {
			rt.Fatalf("came back: %v", got)
		}
		// An earlier unregister that comes late does not lower the fence.
		unregister(rt, d, r.Session, u, rapid.Uint64Range(0, end).Draw(rt, "late"), &fx)
		r.OwnerSeq = end
		if _, err := d.Register(tg, r, PolicyDevice, epoch); !errors.Is(err, ErrFenced) {
			rt.Fatalf("register at the tombstone: %v", err)
		}
		// What is newer is not held back.
		r.OwnerSeq = end + 1
		if closing, err := d.Restore(tg, o, []Route{r}, false, epoch, &fx, nil); err != nil || len(closing) > 0 {
			rt.Fatalf("restore above the tombstone: %v %v", closing, err)
		}
	})
}

func unregister(t *rapid.T, d *Directory, id identity.SessionID, u identity.UID, at uint64, fx *Effects) {
	e := []SessionSeq{{Session: id, UID: u, OwnerSeq: at}}
	if err := d.Unregister(target(1), owner(1), e, epoch, fx); err != nil {
		t.Fatal(err)
	}
}

func TestI4_ExpiryKeepsTombstonesForTheirTime(t *testing.T) {
	u, tg, o := usersIn(testHash, 1)[0], target(1), owner(1)
	d := open(t, Config{TTL: time.Second, TombstoneTTL: time.Minute})
	var fx Effects
	r := route(u, 1, o, app("", identity.LevelSlave))
	login(t, d, r, epoch, &fx)
	if err := d.Unregister(tg, o, []SessionSeq{{Session: r.Session, OwnerSeq: 2}}, epoch, &fx); err != nil {
		t.Fatal(err)
	}
	d.Expire(epoch.Add(59*time.Second), nil, &fx)
	if _, err := d.Register(tg, r, PolicyDevice, epoch.Add(59*time.Second)); !errors.Is(err, ErrFenced) {
		t.Fatalf("register within the tombstone's time: %v", err)
	}
	d.Expire(epoch.Add(time.Minute), nil, &fx)
	if st := d.SlotStats(testHash); st.Tombstones != 0 {
		t.Fatalf("tombstones are bounded in time: %+v", st)
	}
}

// A replayed ticket's candidate harms nobody.
func TestI5_PendingCandidateIsInvisibleAndHarmless(t *testing.T) {
	u, tg := usersIn(testHash, 1)[0], target(1)
	d := open(t, Config{CandidateTimeout: 15 * time.Second})
	var fx Effects
	live := route(u, 1, owner(1), app("phone", identity.LevelMaster))
	first, err := d.Register(tg, live, PolicyDevice, epoch)
	if err != nil {
		t.Fatal(err)
	}
	replay := route(u, 2, owner(2), app("phone", identity.LevelMaster))
	second, err := d.Register(tg, replay, PolicyDevice, epoch)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Commit(tg, first.Candidate, live.Session, nil, epoch, &fx); err != nil {
		t.Fatalf("another candidate stands in the way: %v", err)
	}
	if err := d.Commit(tg, second.Candidate, live.Session, nil, epoch, &fx); !errors.Is(err, ErrExpired) {
		t.Fatal(err)
	}
	if err := d.Abort(tg, second.Candidate); err != nil {
		t.Fatal(err)
	}
	if _, got := look(t, d, tg, u); len(got) != 1 || got[0] != live {
		t.Fatalf("routes %v", got)
	}
	late := route(u, 3, owner(2), app("", identity.LevelSlave))
	third, err := d.Register(tg, late, PolicyDevice, epoch)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Commit(tg, third.Candidate, late.Session, nil, epoch.Add(15*time.Second), &fx); !errors.Is(err, ErrExpired) {
		t.Fatalf("commit after the candidate's time: %v", err)
	}
}

// seq yields 0..n-1.
func seq(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}
