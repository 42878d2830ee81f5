package leader_test

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/authority/internal/delivery"
	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/authority/internal/leader"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/leadership"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

const alice identity.UID = "eu/main/alice"

var (
	owner = directory.Owner{Gateway: "g1", Boot: "b1"}
	other = directory.Owner{Gateway: "g2", Boot: "b2"}
)

// rig is a leader of every slot, with owners that answer at once.
type rig struct {
	t      *testing.T
	leader *leader.Leader
	links  *delivery.Links

	mu      sync.Mutex
	entry   leadership.Entry
	serving bool
	pushed  []string // payloads, as owners got them
	acted   []*wirepb.OwnerAction
	answer  wirepb.Delivery
	acts    wirepb.ActionResult
	gone    bool
	events  []directory.Transition
}

func newRig(t *testing.T, cfg leader.Config) *rig {
	t.Helper()
	r := &rig{t: t, serving: true, answer: wirepb.Delivery_DELIVERY_QUEUED, acts: wirepb.ActionResult_ACTION_RESULT_DONE,
		entry: leadership.Entry{Leader: leadership.Owner{Node: "a1", Boot: "ab"}, Term: 3, ConfigEpoch: 1}}
	dir, err := directory.New(directory.Config{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r.links = delivery.New(delivery.Config{Gone: dir.Gone}, r)
	t.Cleanup(r.links.Close)
	r.leader = leader.New(cfg, slot.Layout{Logical: 4, ConfigEpoch: 1}, dir, r.links, func(slot.ID) (leadership.Entry, bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.entry, r.serving
	})
	r.leader.Announce(r)
	return r
}

func (r *rig) User(t directory.Transition) {
	r.mu.Lock()
	r.events = append(r.events, t)
	r.mu.Unlock()
}

func (r *rig) open(awaited ...directory.Owner) {
	r.t.Helper()
	for id := range slot.ID(4) {
		if err := r.leader.Open(id, r.entry, true, awaited, time.Now()); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) Call(subj string, data []byte, _ nats.Header, _ time.Time, cb natsconn.Callback) error {
	r.mu.Lock()
	gone, answer, acts := r.gone, r.answer, r.acts
	r.mu.Unlock()
	_, _, op, _ := subject.ParseOwner(subj)
	if gone {
		cb(nil, natsconn.ErrNoResponders)
		return nil
	}
	if op == subject.OwnerAction {
		var a wirepb.OwnerAction
		if err := a.UnmarshalVT(slices.Clone(data)); err != nil {
			return err
		}
		r.mu.Lock()
		r.acted = append(r.acted, &a)
		r.mu.Unlock()
		var reply wirepb.OwnerActionReply
		for range a.Sessions {
			reply.Results = append(reply.Results, acts)
		}
		out, err := reply.MarshalVT()
		cb(&nats.Msg{Data: out}, err)
		return nil
	}
	var p wirepb.OwnerPush
	if err := p.UnmarshalVT(slices.Clone(data)); err != nil {
		return err
	}
	var reply wirepb.OwnerPushReply
	for _, it := range p.Items {
		for i := range it.To {
			r.mu.Lock()
			r.pushed = append(r.pushed, string(it.Push.Payload))
			r.mu.Unlock()
			reply.Results = append(reply.Results, &wirepb.OwnerPushResult{Item: it.Item, Index: uint32(i), Delivery: answer})
		}
	}
	out, err := reply.MarshalVT()
	cb(&nats.Msg{Data: out}, err)
	return nil
}

func (r *rig) target() slot.Target {
	h := slot.OfUID(alice)
	return r.entry.Target(h, slot.Layout{Logical: 4}.ID(h))
}

// route is a session of alice's.
func route(o directory.Owner, device string, connected int64) directory.Route {
	return directory.Route{UID: alice, Gateway: o.Gateway, Boot: o.Boot, Session: identity.NewSessionID(uint8(slot.OfUID(alice))),
		Device: identity.Device{ID: device, Flag: "app"}, OwnerSeq: 1, ConnectedAt: connected, LastActive: connected}
}

func (r *rig) login(rt directory.Route) {
	r.t.Helper()
	reg, err := r.leader.Register(r.target(), rt, directory.PolicyDevice, time.Now())
	if err == nil {
		err = r.leader.Commit(r.target(), reg.Candidate, rt.Session, nil, time.Now())
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// push sends n and returns where its outcome will be.
func (r *rig) push(n int, hold time.Duration) chan leader.Outcome {
	out := make(chan leader.Outcome, 1)
	r.leader.Push(leader.Order{
		Target: r.target(), Users: []identity.UID{alice}, Push: &wirepb.Push{Route: 100, Payload: []byte(strconv.Itoa(n))},
		HoldUntil: time.Now().Add(hold), Done: func(o leader.Outcome) { out <- o },
	})
	return out
}

func wait(t *testing.T, c <-chan leader.Outcome) leader.Outcome {
	t.Helper()
	select {
	case o := <-c:
		return o
	case <-time.After(10 * time.Second):
		t.Fatal("no outcome")
		return leader.Outcome{}
	}
}

// TestI11_HeldPushesKeepTheirOrder: what waits for a rebuild goes out in order, before what comes later.
func TestI11_HeldPushesKeepTheirOrder(t *testing.T) {
	r := newRig(t, leader.Config{})
	r.open(owner)
	const n = 50
	var outs []chan leader.Outcome
	for i := range n {
		outs = append(outs, r.push(i, time.Minute))
	}
	if r.leader.Held() != n || len(r.pushed) != 0 {
		t.Fatalf("%d held, %d sent", r.leader.Held(), len(r.pushed))
	}
	if _, err := r.leader.Restore(r.target(), owner, []directory.Route{route(owner, "phone", 1)}, true, time.Now()); err != nil {
		t.Fatal(err)
	}
	outs = append(outs, r.push(n, time.Minute))
	var want []string
	for i, c := range outs {
		if o := wait(t, c); o.Err != nil || len(o.Sessions) != 1 || o.Sessions[0].Delivery != wirepb.Delivery_DELIVERY_QUEUED {
			t.Fatalf("%d: %+v", i, o)
		}
		want = append(want, strconv.Itoa(i))
	}
	if !slices.Equal(r.pushed, want) || r.leader.Held() != 0 {
		t.Fatalf("%q", r.pushed)
	}
}

// TestI7_HoldEnds: a push that waited long enough says unknown for users who may be somewhere.
func TestI7_HoldEnds(t *testing.T) {
	r := newRig(t, leader.Config{})
	r.open(owner)
	out := r.push(1, time.Millisecond)
	r.leader.Tick(time.Now().Add(time.Second))
	if o := wait(t, out); o.Err != nil || !slices.Equal(o.Unknown, []identity.UID{alice}) || len(o.Offline) != 0 {
		t.Fatalf("%+v", o)
	}
	out = r.push(2, time.Minute)
	r.leader.OwnerGone(owner, time.Now()) // the only one that was awaited
	if o := wait(t, out); o.Err != nil || !slices.Equal(o.Offline, []identity.UID{alice}) {
		t.Fatalf("%+v", o)
	}
}

// TestI12_HeldBound: too many waiting pushes are refused, and the slot's loss refuses them all.
func TestI12_HeldBound(t *testing.T) {
	r := newRig(t, leader.Config{MaxHeld: 2})
	r.open(owner)
	a, b := r.push(1, time.Minute), r.push(2, time.Minute)
	if o := wait(t, r.push(3, time.Minute)); !errors.Is(o.Err, fault.ErrQueueFull) {
		t.Fatalf("%+v", o)
	}
	for id := range slot.ID(4) {
		r.leader.Close(id)
	}
	for _, c := range []chan leader.Outcome{a, b} {
		if o := wait(t, c); !errors.Is(o.Err, directory.ErrNotLeader) {
			t.Fatalf("%+v", o)
		}
	}
	if r.leader.Held() != 0 || len(r.pushed) != 0 {
		t.Fatalf("%d held, %q sent", r.leader.Held(), r.pushed)
	}
}

// TestI3_Fence: not serving, another term, and a closed slot.
func TestI3_Fence(t *testing.T) {
	r := newRig(t, leader.Config{})
	if err := r.leader.Check(r.target()); err != nil {
		t.Fatal(err) // serving is the engine's to say
	}
	r.open()
	r.login(route(owner, "phone", 1))
	old := r.target()
	r.mu.Lock()
	r.serving = false
	r.mu.Unlock()
	if err := r.leader.Check(old); !errors.Is(err, directory.ErrUnavailable) {
		t.Fatalf("uncertain: %v", err)
	}
	if o := wait(t, r.push(1, time.Minute)); o.Err == nil || len(r.pushed) != 0 {
		t.Fatalf("%+v", o)
	}
	var found directory.Found
	if err := r.leader.Lookup(old, []identity.UID{alice}, nil, &found); err == nil {
		t.Fatal("looked up while uncertain")
	}
	r.mu.Lock()
	r.serving, r.entry.Term = true, 4
	r.mu.Unlock()
	var stale *directory.StaleTarget
	if err := r.leader.Check(old); !errors.As(err, &stale) || stale.Current.Term != 4 {
		t.Fatalf("%v", err)
	}
	if _, err := r.leader.Touch(old, owner, nil, time.Now()); !errors.As(err, &stale) {
		t.Fatalf("%v", err)
	}
	if err := r.leader.Unregister(old, owner, nil, time.Now()); !errors.As(err, &stale) {
		t.Fatalf("%v", err)
	}
	if err := r.leader.Abort(old, 1); !errors.As(err, &stale) {
		t.Fatalf("%v", err)
	}
}

// TestStaleRouteIsRemoved: of an owner without the session.
func TestStaleRouteIsRemoved(t *testing.T) {
	r := newRig(t, leader.Config{})
	r.open()
	r.login(route(owner, "phone", 1))
	r.mu.Lock()
	r.answer = wirepb.Delivery_DELIVERY_STALE
	r.mu.Unlock()
	if o := wait(t, r.push(1, 0)); len(o.Sessions) != 1 || o.Sessions[0].Delivery != wirepb.Delivery_DELIVERY_STALE {
		t.Fatalf("%+v", o)
	}
	if o := wait(t, r.push(2, 0)); len(o.Offline) != 1 {
		t.Fatalf("%+v", o)
	}
	if len(r.events) != 2 || !r.events[0].Online || r.events[1].Online {
		t.Fatalf("%+v", r.events)
	}
}

func TestAct(t *testing.T) {
	r := newRig(t, leader.Config{})
	r.open()
	phone, tablet := route(owner, "phone", 1), route(other, "tablet", 1)
	r.login(phone)
	r.login(tablet)
	act := r.act
	if n, u, err := act(leader.Action{Users: []identity.UID{alice}, Sessions: []identity.SessionID{phone.Session}, Except: tablet.Session}); n != 1 || u != nil || err != nil {
		t.Fatal(n, u, err)
	}
	if len(r.acted) != 1 || len(r.acted[0].Sessions) != 1 || identity.SessionID(r.acted[0].Sessions[0].SessionId) != phone.Session {
		t.Fatalf("%v", r.acted)
	}
	if n, _, err := act(leader.Action{Users: []identity.UID{alice}}); n != 2 || err != nil {
		t.Fatal(n, err)
	}
}

// act does an action.
func (r *rig) act(a leader.Action) (done int, unknown []identity.UID, err error) {
	r.t.Helper()
	over := make(chan struct{})
	a.Target, a.Kind, a.Deadline = r.target(), wirepb.ActionKind_ACTION_KIND_KICK, time.Now().Add(time.Minute)
	a.Done = func(n int, u []identity.UID, e error) {
		done, unknown, err = n, u, e
		close(over)
	}
	r.leader.Act(a)
	<-over
	return done, unknown, err
}

// TestRestoredLoserIsEvicted: the owner of the route that lost is told to close it (I1).
func TestRestoredLoserIsEvicted(t *testing.T) {
	r := newRig(t, leader.Config{})
	r.open(owner, other)
	old := route(owner, "phone", 1)
	if _, err := r.leader.Restore(r.target(), owner, []directory.Route{old}, true, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.leader.Restore(r.target(), other, []directory.Route{route(other, "phone", 2)}, true, time.Now()); err != nil {
		t.Fatal(err)
	}
	if len(r.acted) != 1 || r.acted[0].Kind != wirepb.ActionKind_ACTION_KIND_REPLACE || r.acted[0].BootId != owner.Boot ||
		identity.SessionID(r.acted[0].Sessions[0].SessionId) != old.Session {
		t.Fatalf("%v", r.acted)
	}
}

func TestTrace(t *testing.T) {
	if h := leader.Trace(nats.Header{"X": {"1"}}); h != nil {
		t.Fatalf("%v", h)
	}
	h := leader.Trace(nats.Header{"X": {"1"}, subject.HeaderTraceparent: {"p"}, subject.HeaderTracestate: {"s"}})
	if len(h) != 2 || h.Get(subject.HeaderTraceparent) != "p" {
		t.Fatalf("%v", h)
	}
}
