package directory

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
)

func TestI12_RoutesCandidatesAndOwnersAreBounded(t *testing.T) {
	us, tg := usersIn(testHash, 8), target(1)
	slave := app("", identity.LevelSlave)
	var fx Effects

	d := open(t, Config{MaxRoutes: 2})
	login(t, d, route(us[0], 0, owner(0), app("phone", identity.LevelSlave)), epoch, &fx)
	login(t, d, route(us[1], 1, owner(0), slave), epoch, &fx)
	if _, err := d.Register(tg, route(us[2], 2, owner(0), slave), PolicyDevice, epoch); !errors.Is(err, ErrFull) {
		t.Fatalf("register beyond MaxRoutes: %v", err)
	}
	if _, err := d.Restore(tg, owner(0), []Route{route(us[2], 2, owner(0), slave)}, true, epoch, &fx, nil); !errors.Is(err, ErrFull) {
		t.Fatalf("restore beyond MaxRoutes: %v", err)
	}
	login(t, d, route(us[0], 3, owner(0), app("phone", identity.LevelSlave)), epoch, &fx) // takes a place, needs none

	d = open(t, Config{MaxCandidates: 2, CandidateTimeout: time.Second})
	for n := range 2 {
		if _, err := d.Register(tg, route(us[n], n, owner(0), slave), PolicyDevice, epoch); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Register(tg, route(us[2], 2, owner(0), slave), PolicyDevice, epoch); !errors.Is(err, ErrFull) {
		t.Fatalf("register beyond MaxCandidates: %v", err)
	}
	if _, err := d.Register(tg, route(us[2], 2, owner(0), slave), PolicyDevice, epoch.Add(time.Second)); err != nil {
		t.Fatalf("the others' time is over: %v", err)
	}

	d = open(t, Config{MaxUserRoutes: 1, MaxOwners: 1})
	login(t, d, route(us[0], 0, owner(0), slave), epoch, &fx)
	if _, err := d.Register(tg, route(us[0], 1, owner(0), slave), PolicyDevice, epoch); !errors.Is(err, ErrFull) {
		t.Fatalf("register beyond MaxUserRoutes: %v", err)
	}
	if _, err := d.Register(tg, route(us[1], 1, owner(1), slave), PolicyDevice, epoch); !errors.Is(err, ErrFull) {
		t.Fatalf("register beyond MaxOwners: %v", err)
	}
	if err := d.Open(target(2), []Owner{owner(0), owner(1)}, epoch); !errors.Is(err, ErrFull) {
		t.Fatalf("open beyond MaxOwners: %v", err)
	}
}

// Two candidates that each fitted when they registered do not both fit.
func TestI12_CommitChecksTheBoundsAgain(t *testing.T) {
	us, tg := usersIn(testHash, 2), target(1)
	d := open(t, Config{MaxRoutes: 1})
	var fx Effects
	var regs [2]Registration
	for n := range 2 {
		var err error
		if regs[n], err = d.Register(tg, route(us[n], n, owner(0), app("", 0)), PolicyDevice, epoch); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range []error{nil, ErrFull} {
		if err := d.Commit(tg, regs[n].Candidate, sessionID(testHash, n), nil, epoch, &fx); !errors.Is(err, want) {
			t.Fatalf("commit %d: %v, want %v", n, err, want)
		}
	}
}

func TestI12_TombstonesAndHeldEventsAreBounded(t *testing.T) {
	const bound, sessions = 10, 1000
	u, tg := usersIn(testHash, sessions), target(1)
	d := open(t, Config{MaxTombstones: bound, MaxOwners: 4, TombstoneTTL: time.Minute}, owner(1))
	var fx Effects
	for n := range sessions {
		e := []SessionSeq{{Session: sessionID(testHash, n), UID: u[n], OwnerSeq: 1}}
		if err := d.Unregister(tg, owner(2), e, epoch.Add(time.Duration(n)*time.Millisecond), &fx); err != nil {
			t.Fatal(err)
		}
		d.OwnerGone(owner(100+n), epoch.Add(time.Duration(n)*time.Millisecond), &fx)
	}
	s := d.cells[testHash].dir
	if st := s.stats(); st.Tombstones != bound || st.TombstonesLost != sessions-bound || st.TransitionsLost != sessions-bound {
		t.Fatalf("%+v", st)
	}
	if len(s.held) != bound || d.gone.set.len() != 4 {
		t.Fatalf("%d held, %d gone", len(s.held), d.gone.set.len())
	}
	if err := s.check(); err != nil {
		t.Fatal(err)
	}
	// The newest stay.
	if _, err := d.Register(tg, route(u[sessions-1], sessions-1, owner(2), app("", 0)), PolicyDevice, epoch); !errors.Is(err, ErrFenced) {
		t.Fatalf("the newest tombstone: %v", err)
	}
	d.Expire(epoch.Add(2*time.Minute), nil, &fx)
	if st := s.stats(); st.Tombstones != 0 || d.gone.set.len() != 0 {
		t.Fatalf("%+v, %d gone", st, d.gone.set.len())
	}
}

func TestI12_ExpireWorksInBatches(t *testing.T) {
	u := usersIn(testHash, 10)
	d := open(t, Config{ExpireBatch: 4, TTL: time.Second})
	var fx Effects
	for n := range 10 {
		login(t, d, route(u[n], n, owner(0), app("", 0)), epoch, &fx)
	}
	fx.Reset()
	now := epoch.Add(2 * time.Second)
	for _, want := range []int{4, 4, 2, 0} {
		if n := d.Expire(now, nil, &fx); n != want {
			t.Fatalf("expired %d, want %d", n, want)
		}
	}
	if len(fx.Transitions) != 10 {
		t.Fatalf("%d transitions", len(fx.Transitions))
	}
}

func TestEmptiedSlotGivesItsMemoryBack(t *testing.T) {
	d := open(t, Config{TTL: time.Second})
	var fx Effects
	for n, u := range usersIn(testHash, 200) {
		login(t, d, route(u, n, owner(0), app("", 0)), epoch, &fx)
	}
	d.Expire(epoch.Add(time.Hour), nil, &fx)
	if x := &d.cells[testHash].dir.routes; x.slab.chunks != nil || x.bySession != nil || x.byUser != nil {
		t.Fatal("an emptied slot keeps memory")
	}
	d.Close(testHash)
	if _, ok := d.Target(testHash); ok || d.SlotStats(testHash).Open {
		t.Fatal("closed slot is open")
	}
}

func TestInvalidRoutesAndConfigsAreRefused(t *testing.T) {
	for _, cfg := range []Config{{TTL: -1}, {MaxRoutes: -1}, {MaxTombstones: 1 << 31}, {CandidateTimeout: -1}} {
		if _, err := New(cfg, epoch); err == nil {
			t.Fatalf("accepted %+v", cfg)
		}
	}
	d, tg := open(t, Config{}), target(1)
	good := route(usersIn(testHash, 1)[0], 1, owner(1), app("", 0))
	var fx Effects
	for name, change := range map[string]func(*Route){
		"user":    func(r *Route) { r.UID = usersIn(testHash+1, 1)[0] },
		"no user": func(r *Route) { r.UID = "" },
		"session": func(r *Route) { r.Session[15]++ },
		"gateway": func(r *Route) { r.Gateway = "" },
	} {
		bad := good
		change(&bad)
		if _, err := d.Register(tg, bad, PolicyDevice, epoch); !errors.Is(err, ErrInvalid) {
			t.Fatalf("register with a wrong %s: %v", name, err)
		}
		if name == "gateway" {
			continue // Restore has the owner apart
		}
		if _, err := d.Restore(tg, owner(1), []Route{good, bad}, false, epoch, &fx, nil); !errors.Is(err, ErrInvalid) {
			t.Fatalf("restore with a wrong %s: %v", name, err)
		}
	}
	other := []SessionSeq{{Session: sessionID(testHash+1, 1)}}
	if _, err := d.Touch(tg, owner(1), other, epoch, nil); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
	if err := d.Unregister(tg, owner(1), other, epoch, &fx); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
	if st := d.SlotStats(testHash); st.Routes != 0 || st.Tombstones != 0 {
		t.Fatalf("%+v", st)
	}
}

// Calls from many goroutines over few slots, for the race detector; the indexes agree afterwards.
func TestConcurrentCalls(t *testing.T) {
	const slots, workers, rounds = 4, 4, 200
	d, err := New(Config{TTL: time.Second, ExpireBatch: 16}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	var users [slots][]identity.UID
	for h := range slots {
		users[h] = usersIn(slot.Hash(h), 5)
		if err := d.Open(targetOf(slot.Hash(h), 1), []Owner{owner(0)}, epoch); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			var fx Effects
			var f Found
			for i := range rounds {
				h, now := slot.Hash(i%slots), epoch.Add(time.Duration(i)*20*time.Millisecond)
				tg, o := targetOf(h, 1), owner(w)
				r := route(users[h][i%5], w*rounds+i, o, app("", 0))
				if reg, err := d.Register(tg, r, PolicyDevice, now); err == nil {
					_ = d.Commit(tg, reg.Candidate, r.Session, nil, now, &fx)
				}
				_, _ = d.Touch(tg, o, []SessionSeq{{Session: r.Session, OwnerSeq: 2}}, now, nil)
				_ = d.Lookup(tg, users[h], &f)
				d.Expire(now, nil, &fx)
				if i%50 == 0 {
					d.OwnerGone(o, now, &fx)
					d.OwnerBack(o)
				}
				d.Stats()
				fx.Reset()
				f.Reset()
			}
		})
	}
	wg.Wait()
	var fx Effects
	for d.Expire(epoch.Add(time.Hour), nil, &fx) > 0 {
		continue
	}
	for h := range slots {
		s := d.cells[h].dir
		if err := s.check(); err != nil || s.routes.len() != 0 {
			t.Fatalf("slot %d: %d routes, %v", h, s.routes.len(), err)
		}
	}
}
