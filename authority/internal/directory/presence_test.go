package directory

import (
	"errors"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
)

// A connected user is never reported offline: not while rebuilding.
func TestI7_RebuildSaysUnknownUntilAllHaveReported(t *testing.T) {
	us, tg := usersIn(testHash, 3), target(1)
	d := open(t, Config{}, owner(1), owner(2), owner(3))
	var fx Effects
	if p, _ := look(t, d, tg, us[0]); p != PresenceUnknown {
		t.Fatalf("nobody has reported: %v", p)
	}
	restore := func(o Owner, complete bool, routes ...Route) {
		t.Helper()
		if closing, err := d.Restore(tg, o, routes, complete, epoch, &fx, nil); err != nil || len(closing) > 0 {
			t.Fatal(closing, err)
		}
	}
	a := route(us[0], 1, owner(1), app("", identity.LevelSlave))
	restore(owner(1), true, a)
	if p, _ := look(t, d, tg, us[0]); p != PresenceOnline {
		t.Fatalf("a restored user is online at once: %v", p)
	}
	// Its session ends, but another owner may have one of the user's too.
	if err := d.Unregister(tg, owner(1), []SessionSeq{{Session: a.Session, UID: us[0], OwnerSeq: 2}}, epoch, &fx); err != nil {
		t.Fatal(err)
	}
	// So may it for a user of whom only the end is heard.
	if err := d.Unregister(tg, owner(1), []SessionSeq{{Session: sessionID(testHash, 2), UID: us[1], OwnerSeq: 2}}, epoch, &fx); err != nil {
		t.Fatal(err)
	}
	restore(owner(2), true, route(us[1], 3, owner(2), app("", identity.LevelSlave)))
	if len(fx.Transitions) > 0 || len(fx.Rebuilt) > 0 {
		t.Fatalf("too early: %+v", fx)
	}
	if p, _ := look(t, d, tg, us[0]); p != PresenceUnknown {
		t.Fatalf("one owner has not reported: %v", p)
	}
	d.OwnerGone(owner(3), epoch, &fx) // died instead of reporting
	if len(fx.Rebuilt) != 1 || fx.Rebuilt[0] != testHash {
		t.Fatalf("rebuilt: %v", fx.Rebuilt)
	}
	if len(fx.Transitions) != 1 || fx.Transitions[0].UID != us[0] || fx.Transitions[0].Online {
		t.Fatalf("transitions: %+v", fx.Transitions)
	}
	for i, want := range []Presence{PresenceOffline, PresenceOnline, PresenceOffline} {
		if p, _ := look(t, d, tg, us[i]); p != want {
			t.Fatalf("user %d: %v, want %v", i, p, want)
		}
	}
}

// Nor for the leader's own deafness, nor for a gateway's wrong clock.
func TestI7_ExpiryCountsFromTheLeadersClock(t *testing.T) {
	u, tg := usersIn(testHash, 1)[0], target(1)
	d := open(t, Config{TTL: 10 * time.Second})
	var fx Effects
	r := route(u, 1, owner(1), app("", identity.LevelSlave))
	r.LastActive = epoch.Add(-time.Hour).UnixMilli()
	login(t, d, r, epoch, &fx)
	now := epoch.Add(9 * time.Second)
	if _, err := d.Touch(tg, owner(1), []SessionSeq{{Session: r.Session, OwnerSeq: 2, LastActive: r.LastActive}}, now, nil); err != nil {
		t.Fatal(err)
	}
	if n := d.Expire(now.Add(10*time.Second), nil, &fx); n != 0 {
		t.Fatal("expired within the TTL of its last sign of life")
	}
	now = now.Add(time.Minute) // NATS was away
	if err := d.Resume(tg, now); err != nil {
		t.Fatal(err)
	}
	if n := d.Expire(now.Add(10*time.Second), nil, &fx); n != 0 {
		t.Fatal("expired for what the leader could not hear")
	}
	if n := d.Expire(now.Add(12*time.Second), nil, &fx); n != 1 {
		t.Fatal("not expired after the TTL")
	}
	if tr := fx.Transitions; len(tr) != 2 || !tr[0].Online || tr[1].Online || tr[1].N <= tr[0].N {
		t.Fatalf("transitions: %+v", tr)
	}
	// The owner, if it lives, hears of it and brings the session back.
	missing, err := d.Touch(tg, owner(1), []SessionSeq{{Session: r.Session, OwnerSeq: 3}}, now, nil)
	if err != nil || len(missing) != 1 || missing[0] != r.Session {
		t.Fatal(missing, err)
	}
	r.OwnerSeq = 3
	if _, err := d.Restore(tg, owner(1), []Route{r}, false, now, &fx, nil); err != nil {
		t.Fatal(err)
	}
	if p, _ := look(t, d, tg, u); p != PresenceOnline {
		t.Fatal(p)
	}
}

func TestI7_LookupRefusesUsersOfOtherSlots(t *testing.T) {
	d := open(t, Config{})
	f := Found{}
	if err := d.Lookup(target(1), append(usersIn(testHash, 1), usersIn(testHash+1, 1)...), &f); !errors.Is(err, ErrInvalid) || len(f.Entries) > 0 {
		t.Fatalf("%v, %d entries", err, len(f.Entries))
	}
}

// A dead gateway's routes go at once, and nothing that it sent brings one back.
func TestI8_NoRouteOutlivesItsOwner(t *testing.T) {
	us, tg := usersIn(testHash, 2), target(1)
	d := open(t, Config{})
	var fx Effects
	dead := route(us[0], 1, owner(1), app("", identity.LevelSlave))
	login(t, d, dead, epoch, &fx)
	login(t, d, route(us[1], 2, owner(2), app("", identity.LevelSlave)), epoch, &fx)
	pending, err := d.Register(tg, route(us[0], 3, owner(1), app("", identity.LevelSlave)), PolicyDevice, epoch)
	if err != nil {
		t.Fatal(err)
	}
	if n := d.OwnerGone(owner(1), epoch, &fx); n != 1 {
		t.Fatalf("%d routes removed", n)
	}
	if err := d.Commit(tg, pending.Candidate, sessionID(testHash, 3), nil, epoch, &fx); !errors.Is(err, ErrExpired) {
		t.Fatalf("late commit: %v", err)
	}
	if _, err := d.Register(tg, dead, PolicyDevice, epoch); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("late register: %v", err)
	}
	if _, err := d.Restore(tg, owner(1), []Route{dead}, true, epoch, &fx, nil); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("late restore: %v", err)
	}
	if st := d.SlotStats(testHash); st.Routes != 1 || st.Candidates != 0 || st.Owners != 1 {
		t.Fatalf("%+v", st)
	}
	d.OwnerBack(owner(1)) // it had only been silent
	if _, err := d.Restore(tg, owner(1), []Route{dead}, true, epoch, &fx, nil); err != nil {
		t.Fatal(err)
	}
	if p, _ := look(t, d, tg, us[0]); p != PresenceOnline {
		t.Fatal(p)
	}
}

// An owner that was taken for gone and lives after all is waited for like any other, also where the
// slot opens before OwnerBack is called; and its report is taken.
func TestI7_OpenAwaitsAnOwnerThatCameBack(t *testing.T) {
	u := usersIn(testHash, 1)[0]
	d, err := New(Config{TombstoneTTL: time.Minute}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	var fx Effects
	d.OwnerGone(owner(1), epoch, &fx)
	if !d.Gone(owner(1)) {
		t.Fatal("not gone")
	}
	if err := d.Open(target(1), []Owner{owner(1)}, epoch); err != nil {
		t.Fatal(err)
	}
	if p, _ := look(t, d, target(1), u); p != PresenceUnknown {
		t.Fatalf("a user whom it may hold is %v", p)
	}
	if _, err := d.Restore(target(1), owner(1), []Route{route(u, 1, owner(1), app("", identity.LevelSlave))}, true, epoch, &fx, nil); err != nil {
		t.Fatal(err)
	}
	if p, _ := look(t, d, target(1), u); p != PresenceOnline {
		t.Fatal(p)
	}
}

// A fence ends with its time.
func TestGoneEndsWithItsTime(t *testing.T) {
	d := open(t, Config{TombstoneTTL: time.Minute})
	var fx Effects
	d.OwnerGone(owner(1), epoch, &fx)
	d.Expire(epoch.Add(time.Minute-time.Second), nil, &fx)
	if !d.Gone(owner(1)) {
		t.Fatal("too early")
	}
	if d.Expire(epoch.Add(time.Minute), nil, &fx); d.Gone(owner(1)) {
		t.Fatal("the fence did not end")
	}
}

// What a node may not serve does not expire: touches do not reach it either.
func TestI7_NothingExpiresWhereTheNodeMayNotServe(t *testing.T) {
	u := usersIn(testHash, 1)[0]
	d := open(t, Config{TTL: time.Second})
	var fx Effects
	login(t, d, route(u, 1, owner(1), app("", identity.LevelSlave)), epoch, &fx)
	late := epoch.Add(time.Hour)
	if n := d.Expire(late, func(h slot.Hash) bool { return h != testHash }, &fx); n != 0 {
		t.Fatalf("%d expired", n)
	}
	if err := d.Resume(target(1), late); err != nil {
		t.Fatal(err)
	}
	if n := d.Expire(late, nil, &fx); n != 0 {
		t.Fatalf("%d expired after it serves again", n)
	}
	if n := d.Expire(late.Add(3*time.Second), nil, &fx); n != 1 {
		t.Fatalf("%d expired in the end", n)
	}
}

// Callers read the clock before they wait for the slot: times come a little out of order.
func TestExpiryKeepsItsOrderWhenTimesGoBack(t *testing.T) {
	us := usersIn(testHash, 3)
	d := open(t, Config{TTL: 10 * time.Second})
	var fx Effects
	for n, second := range []int{5, 3, 7} {
		login(t, d, route(us[n], n, owner(1), app("", identity.LevelSlave)), epoch.Add(time.Duration(second)*time.Second), &fx)
		if err := d.cells[testHash].dir.check(); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.Expire(epoch.Add(16*time.Second), nil, &fx); n != 2 {
		t.Fatalf("%d expired", n)
	}
}

// A candidate that the session's own route has overtaken is no longer the newest.
func TestI13_OvertakenCandidateIsFenced(t *testing.T) {
	u, tg := usersIn(testHash, 1)[0], target(1)
	d := open(t, Config{})
	var fx Effects
	r := route(u, 1, owner(1), app("", identity.LevelSlave))
	login(t, d, r, epoch, &fx)
	moved := r
	moved.Gateway, moved.Boot, moved.OwnerSeq = owner(2).Gateway, owner(2).Boot, 3
	reg, err := d.Register(tg, moved, PolicyAllowMultiple, epoch)
	if err != nil || len(reg.Conflicts) != 1 { // its other socket conflicts under every policy (I1)
		t.Fatal(reg, err)
	}
	if _, err := d.Touch(tg, owner(1), []SessionSeq{{Session: r.Session, OwnerSeq: 4}}, epoch, nil); err != nil {
		t.Fatal(err)
	}
	if err := d.Commit(tg, reg.Candidate, r.Session, []identity.SessionID{r.Session}, epoch, &fx); !errors.Is(err, ErrFenced) {
		t.Fatal(err)
	}
}

// An old session's end never removes a newer route.
func TestI13_LateEndsLeaveNewerRoutes(t *testing.T) {
	u, tg := usersIn(testHash, 1)[0], target(1)
	d := open(t, Config{})
	var fx Effects
	old := route(u, 1, owner(1), app("phone", identity.LevelSlave))
	next := route(u, 2, owner(2), app("phone", identity.LevelSlave))
	login(t, d, old, epoch, &fx)
	login(t, d, next, epoch, &fx) // replaces old
	check := func(what string, want Route) {
		t.Helper()
		if _, got := look(t, d, tg, u); len(got) != 1 || got[0] != want {
			t.Fatalf("after %s: %+v", what, got)
		}
	}
	end := func(o Owner, id identity.SessionID, seq uint64) {
		t.Helper()
		if err := d.Unregister(tg, o, []SessionSeq{{Session: id, UID: u, OwnerSeq: seq}}, epoch, &fx); err != nil {
			t.Fatal(err)
		}
	}
	end(owner(1), old.Session, 9)
	check("the old session's unregister", next)
	if ok, err := d.RemoveExact(tg, old, epoch, &fx); ok || err != nil {
		t.Fatal(ok, err)
	}
	check("a stale answer for the old session", next)

	if _, err := d.Touch(tg, owner(2), []SessionSeq{{Session: next.Session, OwnerSeq: 5}}, epoch, nil); err != nil {
		t.Fatal(err)
	}
	if ok, _ := d.RemoveExact(tg, next, epoch, &fx); ok {
		t.Fatal("removed by an answer about an earlier sequence")
	}
	next.OwnerSeq = 5
	end(owner(2), next.Session, 4)
	check("an unregister from before the last touch", next)

	// The session moves on to another owner; the first one's end comes late.
	moved := next
	moved.Gateway, moved.Boot, moved.OwnerSeq = owner(3).Gateway, owner(3).Boot, 6
	login(t, d, moved, epoch, &fx)
	check("moving", moved)
	end(owner(2), next.Session, 99)
	check("the former owner's unregister", moved)
	d.OwnerGone(owner(2), epoch, &fx)
	check("the former owner's death", moved)
}

func TestRestoreConflictLaterConnectedWins(t *testing.T) {
	u, tg := usersIn(testHash, 1)[0], target(1)
	for name, newerFirst := range map[string]bool{"newer first": true, "older first": false} {
		d := open(t, Config{}, owner(1), owner(2))
		var fx Effects
		older := route(u, 1, owner(1), app("phone", identity.LevelSlave))
		newer := route(u, 2, owner(2), app("phone", identity.LevelSlave))
		first, second := older, newer
		if newerFirst {
			first, second = newer, older
		}
		if closing, err := d.Restore(tg, first.Owner(), []Route{first}, true, epoch, &fx, nil); err != nil || len(closing) > 0 {
			t.Fatal(name, closing, err)
		}
		closing, err := d.Restore(tg, second.Owner(), []Route{second}, true, epoch, &fx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if newerFirst != (len(closing) == 1 && closing[0] == older.Session) {
			t.Fatalf("%s: closing %v", name, closing)
		}
		if !newerFirst != (len(fx.Evicted) == 1 && fx.Evicted[0] == older) {
			t.Fatalf("%s: evicted %v", name, fx.Evicted)
		}
		if _, got := look(t, d, tg, u); len(got) != 1 || got[0] != newer {
			t.Fatalf("%s: %v", name, got)
		}
	}
}
