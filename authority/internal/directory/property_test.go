package directory

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/switchyard-io/switchyard/shared/identity"
)

// machine drives a Directory and the model with the same operations and compares all that can
// be seen.
type machine struct {
	d     *Directory
	m     model
	term  uint64
	users []identity.UID
	view  map[identity.UID]bool // what a reader of the events believes
	n     uint64                // of the last event
	fx    Effects
}

const modelSessions, modelOwners = 8, 3

func newMachine(t *rapid.T) *machine {
	cfg := Config{
		TTL: 20 * time.Second, CandidateTimeout: 5 * time.Second, TombstoneTTL: 15 * time.Second,
		RebuildWait: 2 * time.Second, ReplacedTTL: 30 * time.Second, ExpireBatch: 1000,
	}
	d, err := New(cfg, epoch)
	if err != nil {
		t.Fatal(err)
	}
	x := &machine{d: d, users: usersIn(testHash, 3), view: map[identity.UID]bool{}}
	x.m.cfg, x.m.now, x.m.lost, x.m.gone = cfg, epoch, map[identity.UID]bool{}, map[Owner]time.Time{}
	x.Reopen(t)
	return x
}

func (x *machine) owner(t *rapid.T) Owner {
	return owner(rapid.IntRange(0, modelOwners-1).Draw(t, "owner"))
}

func (x *machine) session(t *rapid.T) (int, identity.SessionID) {
	n := rapid.IntRange(0, modelSessions-1).Draw(t, "session")
	return n, sessionID(testHash, n)
}

func (x *machine) seq(t *rapid.T) uint64 { return rapid.Uint64Range(1, 6).Draw(t, "seq") }

// route draws one: a session belongs to one user and mostly to one owner.
func (x *machine) route(t *rapid.T) Route {
	n, _ := x.session(t)
	o := owner(n % modelOwners)
	if rapid.IntRange(0, 5).Draw(t, "moved") == 0 {
		o = x.owner(t)
	}
	dev := identity.Device{
		ID:    rapid.SampledFrom([]string{"", "d1", "d2"}).Draw(t, "device"),
		Flag:  rapid.SampledFrom([]string{"app", "app", "web"}).Draw(t, "flag"),
		Level: rapid.SampledFrom([]identity.Level{identity.LevelSlave, identity.LevelSlave, identity.LevelMaster}).Draw(t, "level"),
	}
	r := route(x.users[n%len(x.users)], n, o, dev)
	r.OwnerSeq = x.seq(t)
	r.ConnectedAt = rapid.Int64Range(1, 4).Draw(t, "connected")
	return r
}

func (x *machine) Register(t *rapid.T) {
	r := x.route(t)
	p := rapid.SampledFrom([]Policy{PolicyDevice, PolicyDevice, PolicyDevice, PolicyAllowMultiple, PolicyRejectNew, PolicyKickExisting}).Draw(t, "policy")
	number, conflicts, want := x.m.register(r, p)
	reg, err := x.d.Register(target(x.term), r, p, x.m.now)
	if !sameError(err, want) {
		t.Fatalf("register: %v, want %v", err, want)
	}
	if reg.Candidate != number {
		t.Fatalf("candidate %d, want %d", reg.Candidate, number)
	}
	x.sameSessions(t, "conflicts", sessionsOf(reg.Conflicts), conflicts)
}

func (x *machine) Commit(t *rapid.T) {
	number := rapid.Uint64Range(0, x.m.last+1).Draw(t, "candidate")
	_, id := x.session(t)
	if c, ok := x.m.pending[number]; ok && rapid.IntRange(0, 9).Draw(t, "right") > 0 {
		id = c.Session
	}
	var confirmed []identity.SessionID
	for n := range modelSessions {
		if rapid.Bool().Draw(t, "confirmed") {
			confirmed = append(confirmed, sessionID(testHash, n))
		}
	}
	unconfirmed, want := x.m.commit(number, id, confirmed)
	err := x.d.Commit(target(x.term), number, id, confirmed, x.m.now, &x.fx)
	if !sameError(err, want) {
		t.Fatalf("commit: %v, want %v", err, want)
	}
	if c := (*Conflict)(nil); errors.As(err, &c) {
		x.sameSessions(t, "unconfirmed", sessionsOf(c.Routes), unconfirmed)
	}
}

// Login is the usual way in, so that routes are not rare.
func (x *machine) Login(t *rapid.T) {
	r := x.route(t)
	number, conflicts, want := x.m.register(r, PolicyDevice)
	reg, err := x.d.Register(target(x.term), r, PolicyDevice, x.m.now)
	if !sameError(err, want) || reg.Candidate != number {
		t.Fatalf("register: %d %v, want %d %v", reg.Candidate, err, number, want)
	}
	if err != nil {
		return
	}
	_, want = x.m.commit(number, r.Session, conflicts)
	if err := x.d.Commit(target(x.term), number, r.Session, conflicts, x.m.now, &x.fx); !sameError(err, want) {
		t.Fatalf("commit: %v, want %v", err, want)
	}
}

func (x *machine) Abort(t *rapid.T) {
	number := rapid.Uint64Range(0, x.m.last+1).Draw(t, "candidate")
	delete(x.m.pending, number)
	if err := x.d.Abort(target(x.term), number); err != nil {
		t.Fatal(err)
	}
}

func (x *machine) Unregister(t *rapid.T) {
	n, id := x.session(t)
	e := SessionSeq{Session: id, UID: x.users[n%len(x.users)], OwnerSeq: x.seq(t)}
	o := x.owner(t)
	x.m.unregister(o, e)
	if err := x.d.Unregister(target(x.term), o, []SessionSeq{e}, x.m.now, &x.fx); err != nil {
		t.Fatal(err)
	}
}

func (x *machine) Touch(t *rapid.T) {
	_, id := x.session(t)
	o := x.owner(t)
	e := SessionSeq{Session: id, OwnerSeq: x.seq(t), LastActive: x.m.now.UnixMilli()}
	_, gone := x.m.gone[o]
	missing, err := x.d.Touch(target(x.term), o, []SessionSeq{e}, x.m.now, nil)
	if gone {
		if !errors.Is(err, ErrUnavailable) {
			t.Fatalf("touch of a fenced owner: %v", err)
		}
		return
	}
	if want := x.m.touch(o, e); err != nil || want != (len(missing) == 1) {
		t.Fatalf("touch: missing %v, want %v, %v", missing, want, err)
	}
}

func (x *machine) Restore(t *rapid.T) {
	o := x.owner(t)
	var routes []Route
	for range rapid.IntRange(0, 3).Draw(t, "routes") {
		routes = append(routes, x.route(t))
	}
	complete := rapid.Bool().Draw(t, "complete")
	closing, err := x.d.Restore(target(x.term), o, routes, complete, x.m.now, &x.fx, nil)
	if _, gone := x.m.gone[o]; gone {
		if !errors.Is(err, ErrUnavailable) {
			t.Fatalf("restore of a fenced owner: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	var wantClosing, wantEvicted []identity.SessionID
	for _, r := range routes {
		if x.m.rebuilds {
			x.m.lost[r.UID] = true // announced by an earlier leader
		}
		c, e := x.m.restore(o, r)
		wantClosing, wantEvicted = append(wantClosing, c...), append(wantEvicted, e...)
	}
	rebuilt := complete && x.m.reported(o)
	x.sameSessions(t, "closing", closing, wantClosing)
	x.sameSessions(t, "evicted", sessionsOf(x.fx.Evicted), wantEvicted)
	if rebuilt != (len(x.fx.Rebuilt) == 1) {
		t.Fatalf("rebuilt: %v, want %v", x.fx.Rebuilt, rebuilt)
	}
}

func (x *machine) OwnerGone(t *rapid.T) {
	o := x.owner(t)
	if got, want := x.d.OwnerGone(o, x.m.now, &x.fx), x.m.ownerGone(o); got != want {
		t.Fatalf("owner gone: %d routes, want %d", got, want)
	}
}

func (x *machine) OwnerBack(t *rapid.T) {
	o := x.owner(t)
	delete(x.m.gone, o)
	x.d.OwnerBack(o)
}

func (x *machine) RemoveExact(t *rapid.T) {
	r := x.route(t)
	a := x.m.active(r.Session)
	want := a != nil && a.OwnerSeq == r.OwnerSeq && a.Owner() == r.Owner()
	if want {
		x.m.remove(r.Session)
	}
	if got, err := x.d.RemoveExact(target(x.term), r, x.m.now, &x.fx); err != nil || got != want {
		t.Fatalf("remove exact: %v, want %v, %v", got, want, err)
	}
}

func (x *machine) Wait(t *rapid.T) {
	x.m.now = x.m.now.Add(time.Duration(rapid.IntRange(0, 8000).Draw(t, "ms")) * time.Millisecond)
	if got, want := x.d.Expire(x.m.now, nil, &x.fx), x.m.expire(); got != want {
		t.Fatalf("expired %d, want %d", got, want)
	}
	if got := x.d.SlotStats(testHash).Candidates; got != len(x.m.pending) {
		t.Fatalf("%d candidates, want %d", got, len(x.m.pending))
	}
}

func (x *machine) Reopen(t *rapid.T) {
	var awaited []Owner
	for n := range modelOwners {
		if rapid.Bool().Draw(t, "awaited") {
			awaited = append(awaited, owner(n))
		}
	}
	x.term++
	for _, u := range x.users {
		x.m.lost[u] = x.view[u]
	}
	x.m.reopen(awaited)
	if err := x.d.Open(target(x.term), awaited, x.m.now); err != nil {
		t.Fatal(err)
	}
}

// Check compares everything after each operation.
func (x *machine) Check(t *rapid.T) {
	if err := x.d.cells[testHash].dir.check(); err != nil {
		t.Fatal(err)
	}
	x.checkEvents(t)
	x.checkLookup(t)
	if err := x.d.cells[testHash].dir.past.check(); err != nil {
		t.Fatal(err)
	}
	st := x.d.SlotStats(testHash)
	if st.Rebuilding != x.m.rebuilds || st.Routes != len(x.m.routes) || st.Departed != len(x.m.past) {
		t.Fatalf("stats %+v, want rebuilding %v and %d routes, %d departed", st, x.m.rebuilds, len(x.m.routes), len(x.m.past))
	}
	x.fx.Reset()
}

func (x *machine) checkEvents(t *rapid.T) {
	for _, e := range x.fx.Transitions {
		if e.N <= x.n || e.Term != x.term || e.Hash != testHash {
			t.Fatalf("event %+v after n %d of term %d", e, x.n, x.term)
		}
		if x.n = e.N; !e.Online && (x.m.rebuilds || x.m.online(e.UID)) {
			t.Fatalf("I7: %s announced offline", e.UID)
		}
		x.view[e.UID] = e.Online
	}
	if x.m.rebuilds {
		return
	}
	for _, u := range x.users {
		is := x.m.online(u)
		if x.view[u] && !is && x.m.lost[u] {
			x.view[u] = false // the session ended with its leader, and nobody was left to tell
		}
		if is && !x.view[u] && x.m.lost[u] {
			x.view[u] = true // restored: taken as known from before
		}
		delete(x.m.lost, u)
		if x.view[u] != is {
			t.Fatalf("events say that %s is online: %v, want %v", u, x.view[u], is)
		}
	}
}

func (x *machine) checkLookup(t *rapid.T) {
	var f Found
	if err := x.d.Lookup(target(x.term), x.users, &f); err != nil {
		t.Fatal(err)
	}
	for i, u := range x.users {
		want := PresenceOffline
		switch {
		case x.m.online(u):
			want = PresenceOnline
		case x.m.rebuilds:
			want = PresenceUnknown
		}
		if f.Entries[i].Presence != want {
			t.Fatalf("%s is %v, want %v", u, f.Entries[i].Presence, want)
		}
		var routes []Route
		for _, r := range x.m.routes {
			if r.UID == u {
				routes = append(routes, r.Route)
			}
		}
		got := slices.Clone(f.Of(i))
		slices.SortFunc(got, bySession)
		slices.SortFunc(routes, bySession)
		if !slices.Equal(got, routes) {
			t.Fatalf("routes of %s:\n%+v, want\n%+v", u, got, routes)
		}
	}
}

func bySession(a, b Route) int { return bytes.Compare(a.Session[:], b.Session[:]) }

func (x *machine) sameSessions(t *rapid.T, what string, got, want []identity.SessionID) {
	order := func(a, b identity.SessionID) int { return bytes.Compare(a[:], b[:]) }
	got, want = slices.Clone(got), slices.Clone(want)
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if !slices.Equal(got, want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func TestDirectoryEqualsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newMachine(t)
		t.Repeat(map[string]func(*rapid.T){
			"": x.Check, "Register": x.Register, "Commit": x.Commit, "Login": x.Login, "Login2": x.Login,
			"Abort": x.Abort, "Unregister": x.Unregister, "Touch": x.Touch, "Restore": x.Restore,
			"OwnerGone": x.OwnerGone, "OwnerBack": x.OwnerBack, "RemoveExact": x.RemoveExact, "Wait": x.Wait,
			"Reopen": x.Reopen,
		})
	})
}
