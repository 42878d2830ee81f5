package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/authority/internal/dispatch"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/membership"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// world is the slot table and the leaders behind it: "a" leads even hash slots, "b" odd ones.
type world struct {
	mu      sync.Mutex
	terms   map[string]uint64 // by leader, as the table has it
	real    map[string]uint64 // as the leader has it
	dead    map[string]bool   // nobody answers
	hung    map[string]bool
	known   bool // stale answers name the current target
	changed chan struct{}
	calls   int
	pushed  map[string]int // by user
	seen    []*wirepb.UserGroup
}

func newWorld() *world {
	return &world{terms: map[string]uint64{"a": 1, "b": 1}, real: map[string]uint64{"a": 1, "b": 1}, dead: map[string]bool{}, hung: map[string]bool{},
		changed: make(chan struct{}), pushed: map[string]int{}}
}

func leaderOf(h slot.Hash) string { return string("ab"[h%2]) }

func (w *world) Snapshot() dispatch.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := snapshot{}
	for k, v := range w.terms {
		s[k] = v
	}
	return s
}

func (w *world) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// set changes the table: term 0 is no leader.
func (w *world) set(node string, term uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.terms[node] = term
	close(w.changed)
	w.changed = make(chan struct{})
}

type snapshot map[string]uint64

func (s snapshot) Target(h slot.Hash) (slot.Target, bool) {
	n := leaderOf(h)
	return target(h, s[n]), s[n] > 0
}

func target(h slot.Hash, term uint64) slot.Target {
	return slot.Target{Hash: h, ID: slot.ID(h % 2), LeaderNode: leaderOf(h), LeaderBoot: "boot", Term: term, ConfigEpoch: 1}
}

func (w *world) Live(string) []membership.Node     { return nil }
func (w *world) Alive(string, string, string) bool { return false }

func (w *world) Call(subj string, data []byte, _ nats.Header, deadline time.Time, cb natsconn.Callback) error {
	node, _, op, _ := subject.ParseAuthority(subj)
	w.mu.Lock()
	w.calls++
	dead, hung := w.dead[node], w.hung[node]
	w.mu.Unlock()
	go func() {
		switch {
		case dead:
			cb(nil, natsconn.ErrNoResponders)
		case hung:
			<-time.After(time.Until(deadline))
			cb(nil, fault.ErrTimeout)
		default:
			cb(&nats.Msg{Data: w.serve(node, op, data)}, nil)
		}
	}()
	return nil
}

// serve answers as a leader: every user is online with one session, but those named "off...".
func (w *world) serve(node string, op subject.AuthorityOp, data []byte) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []byte
	var err error
	switch op {
	case subject.AuthorityPush:
		var req wirepb.AuthorityPushRequest
		_ = req.UnmarshalVT(data)
		var r wirepb.AuthorityPushReply
		for _, g := range req.Groups {
			res := &wirepb.PushGroupResult{}
			if res.Status, res.Current = w.fence(node, g); res.Status == wirepb.Status_STATUS_OK {
				for _, u := range g.Uids {
					w.pushed[u]++
					res.Sessions = append(res.Sessions, &wirepb.SessionResult{Uid: u, SessionId: make([]byte, 16), Delivery: wirepb.Delivery_DELIVERY_QUEUED})
				}
			}
			r.Groups = append(r.Groups, res)
		}
		out, err = r.MarshalVT()
	case subject.AuthorityEndpoints:
		var req wirepb.EndpointsRequest
		_ = req.UnmarshalVT(data)
		var r wirepb.EndpointsReply
		for _, g := range req.Groups {
			res := &wirepb.EndpointsGroupResult{}
			if res.Status, res.Current = w.fence(node, g); res.Status == wirepb.Status_STATUS_OK {
				for range g.Uids {
					res.Users = append(res.Users, &wirepb.UserEndpoints{Presence: wirepb.Presence_PRESENCE_OFFLINE})
				}
			}
			r.Groups = append(r.Groups, res)
		}
		out, err = r.MarshalVT()
	case subject.AuthorityAct:
		var req wirepb.AuthorityActRequest
		_ = req.UnmarshalVT(data)
		var r wirepb.AuthorityActReply
		for _, g := range req.Groups {
			res := &wirepb.ActGroupResult{}
			if res.Status, res.Current = w.fence(node, g); res.Status == wirepb.Status_STATUS_OK {
				res.Done = uint32(len(g.Uids) + len(g.SessionIds))
			}
			r.Groups = append(r.Groups, res)
		}
		out, err = r.MarshalVT()
	}
	if err != nil {
		panic(err)
	}
	return out
}

func (w *world) fence(node string, g *wirepb.UserGroup) (wirepb.Status, *wirepb.Target) {
	w.seen = append(w.seen, g)
	t, err := wire.ParseTarget(g.Target)
	switch {
	case err != nil || leaderOf(t.Hash) != node:
		return wirepb.Status_STATUS_INVALID, nil
	case t.Term == w.real[node]:
		return wirepb.Status_STATUS_OK, nil
	case w.known:
		return wirepb.Status_STATUS_STALE_TARGET, wire.Target(target(t.Hash, w.real[node]))
	}
	return wirepb.Status_STATUS_NOT_LEADER, nil
}

func users(n int) (out []identity.UID) {
	for i := range n {
		out = append(out, identity.UID(fmt.Sprintf("eu/main/u%d", i)))
	}
	return out
}

func in(us []identity.UID, leader string) (out []identity.UID) {
	for _, u := range us {
		if leaderOf(slot.OfUID(u)) == leader {
			out = append(out, u)
		}
	}
	return out
}

// scene runs f in a bubble with a world of its own.
func scene(t *testing.T, f func(t *testing.T, w *world, d *dispatch.Dispatcher)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		f(t, w, dispatch.New(dispatch.Config{}, nil, w, w, w))
	})
}

// once checks that every user was pushed to exactly once, whatever was tried.
func (w *world) once(t *testing.T, us []identity.UID) {
	t.Helper()
	for _, u := range us {
		if n := w.pushed[string(u)]; n != 1 {
			t.Fatalf("%s was pushed to %d times", u, n)
		}
	}
}

func TestOneCallALeader(t *testing.T) {
	scene(t, func(t *testing.T, w *world, d *dispatch.Dispatcher) {
		us := users(300)
		out := d.Push(t.Context(), append(us, us[:10]...), nil, &wirepb.Push{}, nil)
		if len(out.Sessions) != 300 || len(out.Unknown)+len(out.Failures) != 0 || w.calls != 2 {
			t.Fatalf("%d sessions in %d calls", len(out.Sessions), w.calls)
		}
		w.once(t, us)
	})
}

func TestLargeRequestsAreCut(t *testing.T) {
	scene(t, func(t *testing.T, w *world, d *dispatch.Dispatcher) {
		var us []identity.UID
		for i := range 4096 {
			us = append(us, identity.UID(fmt.Sprintf("eu/main/%0120d", i)))
		}
		out := d.Push(t.Context(), us, nil, &wirepb.Push{}, nil)
		if len(out.Sessions) != len(us) || w.calls < 8 {
			t.Fatalf("%d sessions in %d calls", len(out.Sessions), w.calls)
		}
		w.once(t, us)
	})
}

// TestStaleGroupIsTriedAgainAlone: its siblings are not sent twice (I3).
func TestStaleGroupIsTriedAgainAlone(t *testing.T) {
	for _, known := range []bool{true, false} {
		scene(t, func(t *testing.T, w *world, d *dispatch.Dispatcher) {
			w.known, w.real["b"] = known, 2
			if !known { // the table learns of it a moment later
				time.AfterFunc(300*time.Millisecond, func() { w.set("b", 2) })
			}
			us := users(100)
			began := time.Now()
			out := d.Push(t.Context(), us, nil, &wirepb.Push{}, nil)
			if len(out.Sessions) != 100 || len(out.Unknown)+len(out.Failures) != 0 {
				t.Fatalf("%+v", out)
			}
			if took := time.Since(began); known && took > 0 || took > 400*time.Millisecond {
				t.Fatalf("took %v", took)
			}
			w.once(t, us)
		})
	}
}

// TestLeaderComesBack: a push that meets a dead leader, or none, waits and arrives.
func TestLeaderComesBack(t *testing.T) {
	scene(t, func(t *testing.T, w *world, d *dispatch.Dispatcher) {
		w.dead["a"] = true
		w.set("b", 0)
		time.AfterFunc(2*time.Second, func() {
			w.mu.Lock()
			w.dead["a"], w.real["a"], w.real["b"] = false, 2, 2
			w.mu.Unlock()
			w.set("a", 2)
			w.set("b", 2)
		})
		us := users(50)
		if out := d.Push(t.Context(), us, nil, &wirepb.Push{}, nil); len(out.Sessions) != 50 {
			t.Fatalf("%+v", out)
		}
		w.once(t, us)
	})
}

// TestI7_NoLeaderIsUnknown: and the wait is bounded.
func TestI7_NoLeaderIsUnknown(t *testing.T) {
	scene(t, func(t *testing.T, w *world, d *dispatch.Dispatcher) {
		w.set("b", 0)
		us := users(50)
		began := time.Now()
		out := d.Push(t.Context(), us, []identity.SessionID{identity.NewSessionID(1)}, &wirepb.Push{}, nil)
		if took := time.Since(began); took < 2*time.Second || took > 3*time.Second {
			t.Fatalf("took %v", took)
		}
		for _, u := range in(us, "b") {
			if !out.Unknown[string(u)] || out.Offline[string(u)] {
				t.Fatalf("%s is not unknown", u)
			}
		}
		if len(out.Sessions) != len(in(us, "a")) || len(out.Failures) != 1 || out.Failures[0].Code != fault.Unavailable {
			t.Fatalf("%d sessions, %v", len(out.Sessions), out.Failures)
		}
		found := d.Lookup(t.Context(), us, nil)
		if len(found) != len(in(us, "a")) {
			t.Fatalf("%d answers", len(found))
		}
		if n, err := d.Act(t.Context(), dispatch.Action{Users: us}, nil); !errors.Is(err, fault.ErrUnavailable) || n != len(in(us, "a")) {
			t.Fatal(n, err)
		}
	})
}

// TestHungLeader: what may have been sent is not sent again, and is an error.
func TestHungLeader(t *testing.T) {
	scene(t, func(t *testing.T, w *world, d *dispatch.Dispatcher) {
		w.hung["b"] = true
		us := users(50)
		out := d.Push(t.Context(), us, nil, &wirepb.Push{}, nil)
		if len(out.Failures) != len(in(us, "b")) || out.Failures[0].Code != fault.Timeout || w.calls != 2 {
			t.Fatalf("%d calls, %v", w.calls, out.Failures)
		}
		if _, err := d.Act(t.Context(), dispatch.Action{Users: us}, nil); !errors.Is(err, fault.ErrTimeout) {
			t.Fatal(err)
		}
	})
}

func TestAct(t *testing.T) {
	scene(t, func(t *testing.T, w *world, d *dispatch.Dispatcher) {
		s := identity.NewSessionID(9)
		n, err := d.Act(t.Context(), dispatch.Action{Users: users(20), Sessions: []identity.SessionID{s, s}}, nil)
		if n != 21 || err != nil {
			t.Fatal(n, err)
		}
		if !slices.ContainsFunc(w.seen, func(g *wirepb.UserGroup) bool { return g.Target.HashSlot == 9 && len(g.SessionIds) == 1 }) {
			t.Fatal("the session is not in its slot's group")
		}
	})
}

// gateways is a fixed set.
type gateways map[string]bool

func (g gateways) Live(string) (out []membership.Node) {
	for n := range g {
		out = append(out, membership.Node{Service: lifecycle.Gateway, ID: n, Boot: "boot"})
	}
	return out
}

func (g gateways) Alive(_, n, _ string) bool { return g[n] }

// TestGather: every live gateway is waited for, one that is silent is an error, and one that is
// gone is not.
func TestGather(t *testing.T) {
	nc := natstest.Conn(t, natstest.Server(t).URL())
	answer := func(m *nats.Msg, node string, final bool, results int) {
		var sync wirepb.GroupSync
		if err := sync.UnmarshalVT(m.Data); err != nil {
			t.Error(err)
			return
		}
		r := wirepb.GroupPushReply{Id: sync.Id, GatewayId: node, BootId: "boot", Final: final}
		for range results {
			r.Sessions = append(r.Sessions, &wirepb.SessionResult{Uid: "eu/main/a", SessionId: make([]byte, 16), GatewayId: node})
		}
		data, err := r.MarshalVT()
		if err == nil {
			err = m.Respond(data)
		}
		if err != nil {
			t.Error(err)
		}
	}
	sub, err := nc.Subscribe(subject.GatewaysGroupSync, func(m *nats.Msg) {
		answer(m, "g1", false, 1)
		answer(m, "g1", true, 1)
		answer(m, "g2", true, 0)
	})
	if err != nil {
		t.Fatal(err)
	}
	d := dispatch.New(dispatch.Config{OwnerTimeout: 50 * time.Millisecond}, nc, nil, nil, gateways{"g1": true, "g2": true})
	out, err := d.PushGroups(context.Background(), []string{"one", "two"}, &wirepb.Push{}, nil)
	if err != nil || len(out.Sessions) != 4 || len(out.Failures) != 0 {
		t.Fatalf("%+v %v", out, err)
	}
	d = dispatch.New(dispatch.Config{OwnerTimeout: 50 * time.Millisecond}, nc, nil, nil, gateways{"g1": true, "g3": true})
	if out, err = d.PushGroups(context.Background(), []string{"one"}, &wirepb.Push{}, nil); err != nil || len(out.Sessions) != 2 || len(out.Failures) != 1 {
		t.Fatalf("%+v %v", out, err)
	}
	d = dispatch.New(dispatch.Config{OwnerTimeout: time.Minute}, nc, nil, nil, gateways{"g1": true, "dead": false})
	if out, err = d.PushGroups(context.Background(), []string{"one"}, &wirepb.Push{}, nil); err != nil || len(out.Failures) != 0 {
		t.Fatalf("%+v %v", out, err)
	}
	_ = sub.Unsubscribe()
}
