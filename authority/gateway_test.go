package authority_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/membership"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// owner is a gateway as the authority sees one: it announces itself, restores what it holds in
// each new term, and writes pushes to sessions that are just lists.
type owner struct {
	s    *site
	nc   *nats.Conn
	node lifecycle.Node
	stop func()

	direct []*nats.Subscription // to its own subjects

	mu       sync.Mutex
	sessions map[identity.SessionID]*session
	silent   bool // answers nothing
	mute     bool // does not report what it holds
	missed   int  // addresses of pushes that were not answered
}

// session is a client's connection.
type session struct {
	route  *wirepb.Route
	id     identity.SessionID
	acks   bool
	pushes []string
	groups []string
}

func (s *site) owner(id string) *owner {
	s.t.Helper()
	o := &owner{s: s, nc: natstest.Conn(s.t, s.url), node: lifecycle.NewNode(lifecycle.Gateway, id), sessions: map[identity.SessionID]*session{}}
	o.hear()
	shared := make(chan *nats.Msg, 1024)
	for _, subj := range []string{subject.Group("*"), subject.GatewaysGroupSync} {
		if _, err := o.nc.ChanSubscribe(subj, shared); err != nil {
			s.t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { o.groups(ctx, shared) })
	wg.Go(func() { o.restore(ctx) })
	wg.Go(func() { _ = membership.NewAnnouncer(o.nc, o.node, nil).Run(ctx) })
	o.stop = sync.OnceFunc(func() { cancel(); wg.Wait(); o.nc.Close() })
	s.t.Cleanup(o.stop)
	natstest.Eventually(s.t, patience, "the gateway is known", func() bool {
		return slices.ContainsFunc(ask[api.NodesReply](s, subject.Nodes, "{}").Nodes, func(n api.Node) bool { return n.BootID == o.node.Boot })
	})
	return o
}

func (o *owner) handle(subj string, f func(*nats.Msg)) {
	sub, err := o.nc.Subscribe(subj, f)
	if err == nil {
		err = o.nc.Flush()
	}
	if err != nil {
		o.s.t.Fatal(err)
	}
	o.direct = append(o.direct, sub)
}

// unhear has nobody hear the gateway's own subjects while it lives on, as when its data connection
// moves to another server.
func (o *owner) unhear() {
	for _, sub := range o.direct {
		if err := sub.Unsubscribe(); err != nil {
			o.s.t.Fatal(err)
		}
	}
	if err := o.nc.Flush(); err != nil {
		o.s.t.Fatal(err)
	}
	o.direct = nil
}

// hear subscribes to the gateway's own subjects.
func (o *owner) hear() {
	o.handle(subject.Owner(o.node.ID, o.node.Boot, subject.OwnerPush), o.push)
	o.handle(subject.Owner(o.node.ID, o.node.Boot, subject.OwnerAction), o.action)
}

// login makes a session known.
func (o *owner) login(uid identity.UID, device string) *session {
	o.s.t.Helper()
	c := o.connect(uid, device)
	o.s.registered(c.route)
	return c
}

// connect makes a session that no leader knows.
func (o *owner) connect(uid identity.UID, device string) *session {
	id := identity.NewSessionID(uint8(slot.OfUID(uid)))
	now := time.Now().UnixMilli()
	c := &session{id: id, route: &wirepb.Route{
		Uid: string(uid), GatewayId: o.node.ID, BootId: o.node.Boot, SessionId: id[:], DeviceId: device, DeviceFlag: "app",
		DeviceLevel: wirepb.Level_LEVEL_SLAVE, Listener: "ws", OwnerSeq: 1, ConnectedAtMs: now, LastActiveMs: now,
	}}
	o.mu.Lock()
	o.sessions[id] = c
	o.mu.Unlock()
	return c
}

// drop forgets a session without telling anybody.
func (o *owner) drop(c *session) {
	o.mu.Lock()
	delete(o.sessions, c.id)
	o.mu.Unlock()
}

func (o *owner) got(c *session) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(c.pushes)
}

// unanswered is how many pushes to sessions a silent gateway has got.
func (o *owner) unanswered() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.missed
}

func (o *owner) setSilent(v bool) {
	o.mu.Lock()
	o.silent = v
	o.mu.Unlock()
}

func (o *owner) send(m *nats.Msg, r message) {
	data, err := r.MarshalVT()
	if err == nil {
		err = m.Respond(data)
	}
	if err != nil {
		o.s.t.Error(err)
	}
}

func (o *owner) push(m *nats.Msg) {
	var req wirepb.OwnerPush
	if err := req.UnmarshalVT(m.Data); err != nil {
		o.s.t.Error(err)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.silent {
		for _, it := range req.Items {
			o.missed += len(it.To)
		}
		return
	}
	var now, later wirepb.OwnerPushReply
	for _, it := range req.Items {
		for i, a := range it.To {
			res := &wirepb.OwnerPushResult{Item: it.Item, Index: uint32(i), Delivery: wirepb.Delivery_DELIVERY_STALE}
			c := o.sessions[identity.SessionID(a.SessionId)]
			if c == nil || c.route.Uid != a.Uid || c.route.OwnerSeq != a.OwnerSeq {
				now.Results = append(now.Results, res)
				continue
			}
			c.pushes = append(c.pushes, string(it.Push.Payload))
			res.Delivery = wirepb.Delivery_DELIVERY_QUEUED
			switch {
			case it.Push.Ack && c.acks:
				res.Delivery = wirepb.Delivery_DELIVERY_ACKED
				later.Results = append(later.Results, res)
				continue
			case it.Push.Ack:
				res.Delivery = wirepb.Delivery_DELIVERY_ACK_TIMEOUT
				later.Results = append(later.Results, res)
				continue
			}
			now.Results = append(now.Results, res)
		}
	}
	for _, r := range []*wirepb.OwnerPushReply{&now, &later} {
		if len(r.Results) > 0 {
			o.send(m, r)
		}
	}
}

func (o *owner) action(m *nats.Msg) {
	var req wirepb.OwnerAction
	if err := req.UnmarshalVT(m.Data); err != nil {
		o.s.t.Error(err)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.silent {
		return
	}
	var reply wirepb.OwnerActionReply
	for _, a := range req.Sessions {
		id := identity.SessionID(a.SessionId)
		c := o.sessions[id]
		res := wirepb.ActionResult_ACTION_RESULT_DONE
		switch {
		case c == nil:
			res = wirepb.ActionResult_ACTION_RESULT_GONE
		case req.Kind == wirepb.ActionKind_ACTION_KIND_GROUP_JOIN && slices.Contains(c.groups, req.Group):
			res = wirepb.ActionResult_ACTION_RESULT_UNCHANGED
		case req.Kind == wirepb.ActionKind_ACTION_KIND_GROUP_JOIN:
			c.groups = append(c.groups, req.Group)
		case req.Kind == wirepb.ActionKind_ACTION_KIND_GROUP_LEAVE:
			c.groups = slices.DeleteFunc(c.groups, func(g string) bool { return g == req.Group })
		default:
			delete(o.sessions, id)
		}
		reply.Results = append(reply.Results, res)
	}
	o.send(m, &reply)
}

// groups writes group pushes, and reports at the sync that follows.
func (o *owner) groups(ctx context.Context, in <-chan *nats.Msg) {
	results := map[uint64][]*wirepb.SessionResult{}
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-in:
			if _, ok := subject.ParseGroup(m.Subject); ok {
				var p wirepb.GroupPush
				if p.UnmarshalVT(m.Data) == nil {
					results[p.Id] = o.toGroup(&p)
				}
				continue
			}
			var sync wirepb.GroupSync
			if sync.UnmarshalVT(m.Data) == nil {
				o.send(m, &wirepb.GroupPushReply{Id: sync.Id, GatewayId: o.node.ID, BootId: o.node.Boot, Sessions: results[sync.Id], Final: true})
				delete(results, sync.Id)
			}
		}
	}
}

func (o *owner) toGroup(p *wirepb.GroupPush) (out []*wirepb.SessionResult) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.sessions {
		if slices.Contains(c.groups, p.Group) {
			c.pushes = append(c.pushes, string(p.Push.Payload))
			out = append(out, &wirepb.SessionResult{Uid: c.route.Uid, SessionId: c.id[:], GatewayId: o.node.ID, Delivery: wirepb.Delivery_DELIVERY_QUEUED})
		}
	}
	return out
}

// restore reports what the gateway holds in every term that it has not reported in.
func (o *owner) restore(ctx context.Context) {
	type term struct {
		boot string
		n    uint64
	}
	done := map[slot.ID]term{}
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		r, err := try[api.SlotsReply](o.s, subject.Slots, "")
		if err != nil {
			continue
		}
		for _, e := range r.Slots {
			if k := (term{e.LeaderBoot, e.Term}); e.LeaderBoot != "" && done[e.SlotID] != k && o.report(e) {
				done[e.SlotID] = k
			}
		}
	}
}

func (o *owner) setMute(v bool) {
	o.mu.Lock()
	o.mute = v
	o.mu.Unlock()
}

func (o *owner) report(e api.Slot) bool {
	o.mu.Lock()
	mute := o.mute
	o.mu.Unlock()
	if mute {
		return false
	}
	req := wirepb.RestoreRequest{GatewayId: o.node.ID, BootId: o.node.Boot, DeadlineMs: soon()}
	for _, h := range e.HashSlots {
		g := &wirepb.RestoreGroup{Complete: true, Target: wire.Target(slot.Target{
			Hash: slot.Hash(h), ID: e.SlotID, LeaderNode: e.LeaderNode, LeaderBoot: e.LeaderBoot, Term: e.Term, ConfigEpoch: e.ConfigEpoch})}
		o.mu.Lock()
		for id, c := range o.sessions {
			if int(id.HashSlot()) == h {
				g.Routes = append(g.Routes, c.route)
			}
		}
		o.mu.Unlock()
		req.Groups = append(req.Groups, g)
	}
	var reply wirepb.RestoreReply
	return o.s.call(subject.Authority(e.LeaderNode, e.LeaderBoot, subject.AuthorityRestore), &req, &reply, time.Second) &&
		!slices.ContainsFunc(reply.Groups, func(r *wirepb.RestoreGroupResult) bool { return r.Status != wirepb.Status_STATUS_OK })
}

func wantPushes(t *testing.T, o *owner, c *session, want ...string) {
	t.Helper()
	natstest.Eventually(t, patience, "pushes "+strings.Join(want, ","), func() bool { return slices.Equal(o.got(c), want) })
}
