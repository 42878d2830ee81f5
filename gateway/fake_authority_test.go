package gateway_test

import (
	"context"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/membership"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// fakeAuthority leads every slot and speaks wirepb: as much of a directory as the gateway's side
// of the contract needs. Its conflict rule is "same user and device".
type fakeAuthority struct {
	nc        *nats.Conn
	node      lifecycle.Node
	announcer *membership.Announcer

	mu         sync.Mutex
	term       uint64
	routes     map[identity.SessionID]*wirepb.Route
	candidates map[uint64]*wirepb.Route
	next       uint64
	complete   map[uint32]bool // hash slots reported whole, of this term
	hold       chan struct{}   // not nil: commits wait for it
	gone       bool            // the gateway is taken for gone: nothing is restored
	comebacks  []*wirepb.Comeback
}

func startAuthority(t *testing.T, nc *nats.Conn) *fakeAuthority {
	t.Helper()
	a := &fakeAuthority{nc: nc, node: lifecycle.NewNode(lifecycle.Authority, "a1"), term: 1}
	a.clear()
	subscribe(t, nc, subject.Prefix+"slot.*.register", a.register)
	subscribe(t, nc, subject.Prefix+"slot.*.commit", a.commit)
	subscribe(t, nc, subject.Prefix+"slot.*.abort", func(m *nats.Msg) {
		reply(t, m, &wirepb.AbortReply{Status: wirepb.Status_STATUS_OK})
	})
	subscribe(t, nc, subject.Authority(a.node.ID, a.node.Boot, subject.AuthorityTouch), func(m *nats.Msg) { a.sessions(t, m, a.touch) })
	subscribe(t, nc, subject.Authority(a.node.ID, a.node.Boot, subject.AuthorityUnregister), func(m *nats.Msg) { a.sessions(t, m, a.unregister) })
	subscribe(t, nc, subject.Authority(a.node.ID, a.node.Boot, subject.AuthorityRestore), func(m *nats.Msg) { a.restore(t, m) })

	a.announcer = membership.NewAnnouncer(nc, a.node, a.beacon)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := a.announcer.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return a
}

func subscribe(t *testing.T, nc *nats.Conn, subj string, f nats.MsgHandler) *nats.Subscription {
	t.Helper()
	sub, err := nc.Subscribe(subj, f)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

func reply(t *testing.T, m *nats.Msg, r interface{ MarshalVT() ([]byte, error) }) {
	data, err := r.MarshalVT()
	if err != nil {
		t.Error(err)
		return
	}
	_ = m.Respond(data) // the caller may be gone
}

func (a *fakeAuthority) beacon(b *wirepb.Beacon) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id := range uint32(slot.DefaultLogical) {
		b.Slots = append(b.Slots, &wirepb.SlotClaim{SlotId: id, Term: a.term, ConfigEpoch: 1})
	}
	b.Comebacks = a.comebacks
}

func (a *fakeAuthority) clear() {
	a.routes = map[identity.SessionID]*wirepb.Route{}
	a.candidates = map[uint64]*wirepb.Route{}
	a.complete = map[uint32]bool{}
}

// newTerm forgets everything, as a new leader does.
func (a *fakeAuthority) newTerm() {
	a.mu.Lock()
	a.term++
	a.clear()
	a.mu.Unlock()
	a.announcer.Pulse()
}

// left drops what a gateway has told, and takes nothing more until it is back.
func (a *fakeAuthority) left() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone = true
	a.clear()
}

// back takes a gateway in again that had left, and asks it for everything.
func (a *fakeAuthority) back(g lifecycle.Node) {
	a.mu.Lock()
	a.gone = false
	a.comebacks = []*wirepb.Comeback{{GatewayId: g.ID, BootId: g.Boot, Number: uint64(len(a.comebacks)) + 1}}
	a.mu.Unlock()
	a.announcer.Pulse()
}

// fenced answers what is not meant for the present term.
func (a *fakeAuthority) fencedLocked(t *wirepb.Target) (wirepb.Status, *wirepb.Target) {
	if t.LeaderTerm == a.term && t.LeaderBoot == a.node.Boot && t.ConfigEpoch == 1 {
		return wirepb.Status_STATUS_OK, nil
	}
	now := proto.CloneOf(t)
	now.LeaderNode, now.LeaderBoot, now.LeaderTerm, now.ConfigEpoch = a.node.ID, a.node.Boot, a.term, 1
	return wirepb.Status_STATUS_STALE_TARGET, now
}

func (a *fakeAuthority) conflictsLocked(r *wirepb.Route) []*wirepb.Route {
	var out []*wirepb.Route
	for _, o := range a.routes {
		if o.Uid == r.Uid && o.DeviceId == r.DeviceId && r.DeviceId != "" && string(o.SessionId) != string(r.SessionId) {
			out = append(out, proto.CloneOf(o))
		}
	}
	return out
}

func (a *fakeAuthority) register(m *nats.Msg) {
	var req wirepb.RegisterRequest
	if req.UnmarshalVT(m.Data) != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r := &wirepb.RegisterReply{}
	if r.Status, r.Current = a.fencedLocked(req.Target); r.Current == nil {
		a.next++
		r.Candidate = a.next
		a.candidates[a.next] = req.Route
		r.Conflicts = a.conflictsLocked(req.Route)
	}
	data, _ := r.MarshalVT()
	_ = m.Respond(data)
}

func (a *fakeAuthority) commit(m *nats.Msg) {
	var req wirepb.CommitRequest
	if req.UnmarshalVT(m.Data) != nil {
		return
	}
	a.mu.Lock()
	hold := a.hold
	a.mu.Unlock()
	if hold != nil {
		<-hold
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r := &wirepb.CommitReply{}
	if r.Status, r.Current = a.fencedLocked(req.Target); r.Current == nil {
		r.Status, r.Conflicts = a.commitLocked(&req)
	}
	data, _ := r.MarshalVT()
	_ = m.Respond(data)
}

func (a *fakeAuthority) commitLocked(req *wirepb.CommitRequest) (wirepb.Status, []*wirepb.Route) {
	route := a.candidates[req.Candidate]
	if route == nil {
		return wirepb.Status_STATUS_EXPIRED, nil
	}
	confirmed := map[string]bool{}
	for _, id := range req.Confirmed {
		confirmed[string(id)] = true
	}
	var open []*wirepb.Route
	for _, c := range a.conflictsLocked(route) {
		if !confirmed[string(c.SessionId)] {
			open = append(open, c)
		}
	}
	if len(open) > 0 {
		return wirepb.Status_STATUS_CONFLICT, open
	}
	for _, c := range a.conflictsLocked(route) {
		delete(a.routes, identity.SessionID(c.SessionId))
	}
	a.routes[identity.SessionID(route.SessionId)] = route
	return wirepb.Status_STATUS_OK, nil
}

func (a *fakeAuthority) sessions(t *testing.T, m *nats.Msg, each func(*wirepb.SessionSeq) bool) {
	var req wirepb.SessionBatch
	if req.UnmarshalVT(m.Data) != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r := &wirepb.SessionBatchReply{}
	for _, g := range req.Groups {
		res := &wirepb.SessionGroupResult{}
		if res.Status, res.Current = a.fencedLocked(g.Target); res.Current == nil {
			for _, s := range g.Sessions {
				if !each(s) {
					res.Missing = append(res.Missing, s.SessionId)
				}
			}
		}
		r.Groups = append(r.Groups, res)
	}
	reply(t, m, r)
}

func (a *fakeAuthority) touch(s *wirepb.SessionSeq) bool {
	r := a.routes[identity.SessionID(s.SessionId)]
	if r != nil {
		r.OwnerSeq, r.LastActiveMs = max(r.OwnerSeq, s.OwnerSeq), s.LastActiveMs
	}
	return r != nil
}

func (a *fakeAuthority) unregister(s *wirepb.SessionSeq) bool {
	delete(a.routes, identity.SessionID(s.SessionId))
	return true
}

func (a *fakeAuthority) restore(t *testing.T, m *nats.Msg) {
	var req wirepb.RestoreRequest
	if req.UnmarshalVT(m.Data) != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r := &wirepb.RestoreReply{}
	for _, g := range req.Groups {
		res := &wirepb.RestoreGroupResult{}
		if res.Status, res.Current = a.fencedLocked(g.Target); res.Current == nil && a.gone {
			res.Status = wirepb.Status_STATUS_UNAVAILABLE
		} else if res.Current == nil {
			for _, route := range g.Routes {
				a.routes[identity.SessionID(route.SessionId)] = route
			}
			if g.Complete {
				a.complete[g.Target.HashSlot] = true
			}
		}
		r.Groups = append(r.Groups, res)
	}
	reply(t, m, r)
}

// online are the user's routes, as the authority knows them.
func (a *fakeAuthority) online(uid identity.UID) []*wirepb.Route {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []*wirepb.Route
	for _, r := range a.routes {
		if r.Uid == string(uid) {
			out = append(out, proto.CloneOf(r))
		}
	}
	return out
}
