package directory

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/shared/identity"
)

// phones returns three sessions of one user's phone at owners 1, 2 and 3.
func phones() (u identity.UID, a, b, c Route) {
	u = usersIn(testHash, 1)[0]
	phone := app("phone", identity.LevelSlave)
	return u, route(u, 1, owner(1), phone), route(u, 2, owner(2), phone), route(u, 3, owner(3), phone)
}

// returns has an owner present a session at a higher sequence than anybody has seen, as after an
// outage, and reports whether it is told to close it.
func returns(t *testing.T, d *Directory, r Route, now time.Time, fx *Effects) (closed bool) {
	t.Helper()
	r.OwnerSeq += 10
	missing, err := d.Touch(target(1), r.Owner(), []SessionSeq{{Session: r.Session, OwnerSeq: r.OwnerSeq}}, now, nil)
	if err != nil || !slices.Equal(missing, []identity.SessionID{r.Session}) {
		t.Fatalf("touch: missing %v, %v", missing, err)
	}
	closing, err := d.Restore(target(1), r.Owner(), []Route{r}, false, now, fx, nil)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Equal(closing, []identity.SessionID{r.Session})
}

func logout(t *testing.T, d *Directory, r Route, fx *Effects) {
	t.Helper()
	if err := d.Unregister(target(1), r.Owner(), []SessionSeq{{Session: r.Session, UID: r.UID, OwnerSeq: r.OwnerSeq + 1}}, epoch, fx); err != nil {
		t.Fatal(err)
	}
}

// A replaced session whose owner did not hear of it stays replaced, though its owner hands out
// higher sequences and its replacement is gone.
func TestI1_ReplacedSessionDoesNotComeBack(t *testing.T) {
	for _, name := range []string{"owner counted as dead", "owner was declared gone", "route had expired"} {
		u, a, b, _ := phones()
		d := open(t, Config{TTL: 10 * time.Second})
		var fx Effects
		login(t, d, a, epoch, &fx)
		switch name { // takes a's route away before b comes
		case "owner was declared gone":
			d.OwnerGone(owner(1), epoch, &fx)
		case "route had expired":
			d.Expire(epoch.Add(time.Minute), nil, &fx)
		}
		login(t, d, b, epoch.Add(time.Minute), &fx)
		logout(t, d, b, &fx)
		d.OwnerBack(owner(1))
		now := epoch.Add(10 * time.Minute) // long after every tombstone
		d.Expire(now, nil, &fx)
		for range 2 { // the first answer may be lost
			if !returns(t, d, a, now, &fx) {
				t.Fatalf("%s: the replaced session is back", name)
			}
		}
		if p, got := look(t, d, target(1), u); p != PresenceOffline || len(got) > 0 {
			t.Fatalf("%s: %v %v", name, p, got)
		}
	}
}

// Not even a clock ahead of its replacement's lets a session win that was there before.
func TestI1_ClocksDoNotBringAReplacedSessionBack(t *testing.T) {
	for _, how := range []string{"replaced", "gone", "expired", "unreported", "unreported beside a master"} {
		u, a, b, _ := phones()
		if how == "unreported beside a master" { // which a slave would not have replaced
			b.Device = app("console", identity.LevelMaster)
		}
		b.ConnectedAt = a.ConnectedAt - 1000
		d := open(t, Config{TTL: time.Second, RebuildWait: time.Millisecond}, owner(1))
		var fx Effects
		now := epoch.Add(time.Minute)
		if !strings.HasPrefix(how, "unreported") {
			if err := d.OwnerReported(target(1), owner(1), epoch, &fx); err != nil {
				t.Fatal(err)
			}
			login(t, d, a, epoch, &fx)
		}
		switch how {
		case "gone":
			d.OwnerGone(owner(1), epoch, &fx)
		case "expired":
			if n := d.Expire(now, nil, &fx); n != 1 {
				t.Fatalf("%d expired", n)
			}
		}
		login(t, d, b, now, &fx)
		d.OwnerBack(owner(1))
		fx.Reset()
		if !returns(t, d, a, now, &fx) || len(fx.Evicted) > 0 {
			t.Fatalf("%s: the earlier session is back, evicted %v", how, fx.Evicted)
		}
		if _, got := look(t, d, target(1), u); len(got) != 1 || got[0].Session != b.Session {
			t.Fatalf("%s: %v", how, got)
		}
	}
}

// Where a user may have one session only, the one that was let in while the first was away stays the
// only one when the first comes back, on whatever device and by whatever clock, and so does the later
// of two that come back.
func TestI1_RejectNewLeavesOneSession(t *testing.T) {
	rejects := Config{Policy: func(identity.UID) Policy { return PolicyRejectNew }}
	u, a, b, _ := phones()
	b.Device = app("tablet", identity.LevelSlave)
	for _, skew := range []int64{-1000, 1000} {
		for _, cfg := range []Config{{}, rejects} {
			b.ConnectedAt = a.ConnectedAt + skew
			d := open(t, cfg)
			var fx Effects
			login(t, d, a, epoch, &fx)
			d.OwnerGone(owner(1), epoch, &fx)
			reg, err := d.Register(target(1), b, PolicyRejectNew, epoch)
			if err == nil {
				err = d.Commit(target(1), reg.Candidate, b.Session, nil, epoch, &fx)
			}
			if err != nil {
				t.Fatal(err)
			}
			d.OwnerBack(owner(1))
			if !returns(t, d, a, epoch, &fx) || len(fx.Evicted) > 0 {
				t.Fatalf("the first is back, evicted %v", fx.Evicted)
			}
			if _, got := look(t, d, target(1), u); len(got) != 1 || got[0].Session != b.Session {
				t.Fatalf("%v", got)
			}
		}
		d := open(t, rejects, owner(1), owner(2))
		var fx Effects
		for _, r := range []Route{a, b} {
			if _, err := d.Restore(target(1), r.Owner(), []Route{r}, true, epoch, &fx, nil); err != nil {
				t.Fatal(err)
			}
		}
		want := a
		if skew > 0 {
			want = b
		}
		if _, got := look(t, d, target(1), u); len(got) != 1 || got[0].Session != want.Session {
			t.Fatalf("%v", got)
		}
	}
}

// Nor does such a clock evict one that it would have replaced, had it come later: a slave that logged
// in beside a master stays beside it.
func TestI1_ClocksDoNotEvictWhoCameLater(t *testing.T) {
	u := usersIn(testHash, 1)[0]
	d := open(t, Config{})
	var fx Effects
	master := route(u, 1, owner(1), app("console", identity.LevelMaster))
	slave := route(u, 2, owner(2), app("phone", identity.LevelSlave))
	slave.ConnectedAt = master.ConnectedAt - 1000
	login(t, d, master, epoch, &fx)
	d.OwnerGone(owner(1), epoch, &fx)
	login(t, d, slave, epoch, &fx)
	d.OwnerBack(owner(1))
	if returns(t, d, master, epoch, &fx) || len(fx.Evicted) > 0 {
		t.Fatalf("evicted %v", fx.Evicted)
	}
	if _, got := look(t, d, target(1), u); len(got) != 2 {
		t.Fatalf("%v", got)
	}
}

// A restored session that lost to another is closed also when the answer got lost and the winner is
// gone by the time that it is presented again.
func TestI1_RestoredLoserStaysLost(t *testing.T) {
	_, a, b, c := phones()
	d := open(t, Config{}, owner(1), owner(2), owner(3))
	var fx Effects
	for _, r := range []Route{b, a, c} { // a loses to b, and b is evicted for c
		if _, err := d.Restore(target(1), r.Owner(), []Route{r}, true, epoch, &fx, nil); err != nil {
			t.Fatal(err)
		}
	}
	logout(t, d, c, &fx)
	if !returns(t, d, a, epoch, &fx) || !returns(t, d, b, epoch, &fx) {
		t.Fatal("a loser is back")
	}
}

// A session that was only lost with its owner comes back with it, and one that was replaced may log
// in anew.
func TestI1_WhoIsNotReplacedComesBack(t *testing.T) {
	u, a, b, _ := phones()
	d := open(t, Config{})
	var fx Effects
	login(t, d, a, epoch, &fx)
	tablet := route(u, 4, owner(2), app("tablet", identity.LevelSlave))
	d.OwnerGone(owner(1), epoch, &fx)
	login(t, d, tablet, epoch, &fx) // another device stands for nobody
	d.OwnerBack(owner(1))
	if returns(t, d, a, epoch, &fx) {
		t.Fatal("closed, and nobody took its place")
	}
	a.OwnerSeq += 10
	login(t, d, b, epoch, &fx)
	a.OwnerSeq += 10
	login(t, d, a, epoch, &fx) // the same session, resumed where it was
	if _, got := look(t, d, target(1), u); len(got) != 2 {
		t.Fatalf("%v", got)
	}
	if closing, err := d.Restore(target(1), owner(1), []Route{a}, false, epoch, &fx, nil); err != nil || len(closing) > 0 {
		t.Fatal(closing, err)
	}
}

// What is remembered of replaced and lost sessions ends with their owner's word, with time, and at
// a bound.
func TestI12_DepartedSessionsAreBounded(t *testing.T) {
	const bound = 10
	d := open(t, Config{MaxTombstones: bound, ReplacedTTL: time.Hour})
	var fx Effects
	us := usersIn(testHash, 3*bound)
	for n, u := range us {
		login(t, d, route(u, n, owner(1), app("phone", identity.LevelSlave)), epoch, &fx)
	}
	d.OwnerGone(owner(1), epoch, &fx)
	for n, u := range us[:bound] {
		login(t, d, route(u, 100+n, owner(2), app("phone", identity.LevelSlave)), epoch, &fx)
		login(t, d, route(u, 200+n, owner(2), app("phone", identity.LevelSlave)), epoch, &fx)
	}
	s := d.cells[testHash].dir
	if st := s.stats(); st.Departed != bound || st.TombstonesLost == 0 {
		t.Fatalf("%+v", st)
	}
	for n, u := range us[:bound] {
		logout(t, d, route(u, 100+n, owner(2), app("phone", identity.LevelSlave)), &fx)
	}
	if st := s.stats(); st.Departed != 0 {
		t.Fatalf("%d left after their owner closed them", st.Departed)
	}
	d.OwnerGone(owner(2), epoch, &fx)
	d.Expire(epoch.Add(time.Hour-time.Second), nil, &fx)
	if st := s.stats(); st.Departed != bound {
		t.Fatalf("%d remembered", st.Departed)
	}
	d.Expire(epoch.Add(time.Hour), nil, &fx)
	if st := s.stats(); st.Departed != 0 || s.past.lost != nil {
		t.Fatalf("%+v", st)
	}
	if err := s.past.check(); err != nil {
		t.Fatal(err)
	}
}

// Candidates are told apart by their whole number.
func TestCommitIsRepeatedByItsWholeNumber(t *testing.T) {
	u, tg := usersIn(testHash, 1)[0], target(1)
	d := open(t, Config{})
	var fx Effects
	r := route(u, 1, owner(1), app("", identity.LevelSlave))
	d.cells[testHash].dir.candidates.last = 1 << 32
	reg, err := d.Register(tg, r, PolicyDevice, epoch)
	if err != nil || reg.Candidate != 1<<32+1 {
		t.Fatal(reg, err)
	}
	for range 2 {
		if err := d.Commit(tg, reg.Candidate, r.Session, nil, epoch, &fx); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Commit(tg, 1, r.Session, nil, epoch, &fx); !errors.Is(err, ErrExpired) {
		t.Fatalf("taken for a repeat of another candidate: %v", err)
	}
}
