package outside

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard-io/switchyard/authority/internal/dispatch"
	"github.com/switchyard-io/switchyard/authority/internal/leader"
	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/telemetry"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// wirePush is a message for the owners, counted from now on.
func wirePush(m *api.Message, now time.Time) *wirepb.Push {
	p := &wirepb.Push{Route: m.Route, Ack: m.Ack, MessageId: m.MessageID}
	p.Payload, p.Base64 = m.Bytes()
	if m.Ack {
		wait := m.AckTimeoutMS
		if wait == 0 {
			wait = api.DefaultAckTimeout
		}
		p.AckDeadlineMs = now.UnixMilli() + wait
	}
	if m.TTLMS > 0 {
		p.ExpiresMs = now.UnixMilli() + m.TTLMS
	}
	for i := range m.ExcludeSessions {
		p.ExcludeSessions = append(p.ExcludeSessions, m.ExcludeSessions[i][:])
	}
	return p
}

// push serves sy.v1.push.
func (o *Outside) push(ctx context.Context, r *request) {
	var req api.PushRequest
	err := api.Decode(r.data, &req)
	if err == nil {
		err = req.Validate()
	}
	if err != nil {
		o.fail(r, err)
		return
	}
	p, h := wirePush(&req.Message, time.Now()), traced(ctx)
	named := len(req.Users)+len(req.Sessions) > 0
	if p.MessageId == "" && overlaps(&req) {
		p.MessageId = nuid.Next() // a session may be meant twice, and gets it once
	}
	out := &dispatch.Outcome{}
	groups := make(chan *dispatch.Outcome, 1)
	if len(req.Groups) > 0 {
		o.running.Go(func() { groups <- o.pushGroups(ctx, req.Groups, p) })
	}
	if named {
		out = o.dispatch.Push(ctx, req.Users, req.Sessions, p, h)
	}
	if len(req.Groups) > 0 {
		g := <-groups
		out.Sessions, out.Failures = append(out.Sessions, g.Sessions...), append(out.Failures, g.Failures...)
	}
	reply := newPushReply(req.Ack)
	reply.merge(out, req.Users)
	o.answer(r, reply.PushReply)
}

// overlaps reports whether one session can be meant in two ways.
func overlaps(r *api.PushRequest) bool {
	ways := len(r.Groups)
	if len(r.Users) > 0 {
		ways++
	}
	if len(r.Sessions) > 0 {
		ways++
	}
	return ways > 1
}

func (o *Outside) pushGroups(ctx context.Context, names []string, p *wirepb.Push) *dispatch.Outcome {
	out, err := o.dispatch.PushGroups(ctx, unique(names), p, traced(ctx))
	if err != nil {
		return &dispatch.Outcome{Failures: []dispatch.Failure{{Code: fault.From(err).Code}}}
	}
	return out
}

func unique(names []string) []string {
	seen := make(map[string]bool, len(names))
	out := names[:0:0]
	for _, n := range names {
		if !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out
}

// pushReply is a reply that has at most one error for a user.
type pushReply struct {
	*api.PushReply
	failed map[identity.UID]bool
}

func newPushReply(ack bool) *pushReply { return &pushReply{PushReply: api.NewPushReply(ack)} }

// worth orders the results of a session that was meant twice: it was written to once, under one
// message id, and the other time says less.
var worth = map[wirepb.Delivery]int{
	wirepb.Delivery_DELIVERY_ACKED: 7, wirepb.Delivery_DELIVERY_ACK_TIMEOUT: 6, wirepb.Delivery_DELIVERY_QUEUED: 5,
	wirepb.Delivery_DELIVERY_PARKED: 4, wirepb.Delivery_DELIVERY_OVERFLOW: 3, wirepb.Delivery_DELIVERY_STALE: 2,
	wirepb.Delivery_DELIVERY_NO_ANSWER: 1,
}

// merge adds an outcome: every session once, and offline and unknown in the order of users.
func (p *pushReply) merge(out *dispatch.Outcome, users []identity.UID) {
	at := make(map[identity.SessionID]int, len(out.Sessions))
	results := make([]*wirepb.SessionResult, 0, len(out.Sessions))
	for _, s := range out.Sessions {
		id, err := identity.SessionIDFromBytes(s.SessionId)
		if err != nil {
			continue
		}
		n, twice := at[id]
		switch {
		case !twice:
			at[id] = len(results)
			results = append(results, s)
		case worth[s.Delivery] > worth[results[n].Delivery]:
			results[n] = s
		}
	}
	for _, s := range results {
		p.add(identity.UID(s.Uid), identity.SessionID(s.SessionId), s.GatewayId, s.Delivery)
	}
	for _, u := range users {
		if out.Offline[string(u)] {
			p.Offline = append(p.Offline, u)
			delete(out.Offline, string(u)) // a user named twice is reported once
		}
		if out.Unknown[string(u)] {
			p.Unknown = append(p.Unknown, u)
			delete(out.Unknown, string(u))
		}
	}
	for _, f := range out.Failures {
		p.fail(identity.UID(f.UID), f.Code)
	}
}

// fail reports that the outcome for a user is not known, once; "" is a session or a gateway of whom
// no user is known, each of which counts.
func (p *pushReply) fail(uid identity.UID, code fault.Code) {
	if p.failed[uid] {
		return
	}
	if uid != "" {
		if p.failed == nil {
			p.failed = map[identity.UID]bool{}
		}
		p.failed[uid] = true
	}
	p.Errors = append(p.Errors, api.UserError{UID: uid, Code: code})
}

// add reports one session; without an answer of the owner it is an error of its user.
func (p *pushReply) add(uid identity.UID, id identity.SessionID, gateway string, d wirepb.Delivery) {
	switch d {
	case wirepb.Delivery_DELIVERY_NO_ANSWER:
		p.fail(uid, fault.Timeout)
	case wirepb.Delivery_DELIVERY_UNSPECIFIED:
		p.fail(uid, fault.Unavailable)
	default:
		p.Add(api.SessionResult{UID: uid, SessionID: id, GatewayID: gateway, Status: status(d)})
	}
}

func status(d wirepb.Delivery) api.Delivery {
	switch d {
	case wirepb.Delivery_DELIVERY_QUEUED:
		return api.Queued
	case wirepb.Delivery_DELIVERY_ACKED:
		return api.Acked
	case wirepb.Delivery_DELIVERY_ACK_TIMEOUT:
		return api.AckTimeout
	case wirepb.Delivery_DELIVERY_PARKED:
		return api.Parked
	case wirepb.Delivery_DELIVERY_OVERFLOW:
		return api.Overflow
	default:
		return api.Stale
	}
}

// userPush serves a push for one user, whose slot this node leads at t. It returns at once; calls
// for one user must come one after the other (I11).
func (o *Outside) userPush(order leader.Order, r *request) {
	var req api.UserPushRequest
	err := api.Decode(r.data, &req)
	if err == nil {
		err = req.Validate()
	}
	if err != nil {
		o.fail(r, err)
		return
	}
	now := time.Now()
	order.Push = wirePush(&req.Message, now)
	order.HoldUntil = now.Add(o.cfg.HoldFor)
	end := func() {}
	if order.Header = leader.Trace(r.header); order.Header != nil {
		ctx, span := o.cfg.Tracer.Start(telemetry.Extract(o.ctx, r.header), "push to a user", trace.WithSpanKind(trace.SpanKindServer))
		order.Header, end = traced(ctx), func() { span.End() }
	}
	order.Done = func(out leader.Outcome) {
		o.userPushed(r, req.Ack, out)
		end()
	}
	o.leader.Push(order)
}

func (o *Outside) userPushed(r *request, ack bool, out leader.Outcome) {
	if errors.Is(out.Err, fault.ErrQueueFull) {
		o.fail(r, fault.ErrQueueFull)
		return
	}
	if out.Err != nil { // the slot moved away while it waited; nothing was sent
		o.fail(r, fault.Wrap(fault.Unavailable, "temporarily unavailable", out.Err))
		return
	}
	reply := newPushReply(ack)
	for i := range out.Sessions {
		s := &out.Sessions[i]
		reply.add(s.UID, s.Session, s.Gateway, s.Delivery)
	}
	reply.Offline = append(reply.Offline, out.Offline...)
	reply.Unknown = append(reply.Unknown, out.Unknown...)
	o.answer(r, reply.PushReply)
}
