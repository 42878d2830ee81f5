package ticketing

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/deadline"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/telemetry"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// Bounds of what waits before an endpoint. Beyond, the connection drops and counts.
const (
	pendingMessages = 1 << 16
	pendingBytes    = 64 << 20
)

// endpoints are the NATS side. Redeems and releases wait for JetStream, so they run beside each
// other, at most cap(turns); the rest is answered in the subscription's goroutine.
type endpoints struct {
	ctx      context.Context // ends the waits of Stop
	nc       *nats.Conn
	desk     *desk
	redeemer *redeemer
	jwks     func() []byte
	meters   *meters
	late     *deadline.Guard
	turns    chan struct{}
	running  atomic.Int64
}

func (e *endpoints) add(s *lifecycle.MicroService) error {
	limits := micro.WithEndpointPendingLimits(pendingMessages, pendingBytes)
	var errs []error
	for _, ep := range []struct {
		name, subject string
		handle        micro.HandlerFunc
	}{
		{"issue", subject.TicketIssue, e.issue},
		{"redeem", subject.TicketRedeem, e.redeem},
		{"release", subject.TicketRelease, e.release},
		{"keys", subject.TicketKeys, e.keys},
	} {
		errs = append(errs, s.AddEndpoint(ep.name, ep.handle, limits,
			micro.WithEndpointSubject(ep.subject), micro.WithEndpointQueueGroup(subject.QueueTicketing)))
	}
	return errors.Join(errs...)
}

func (e *endpoints) issue(r micro.Request) {
	ctx, span := e.meters.tracer.Start(e.traced(r), "ticketing.issue")
	defer span.End()
	var req api.TicketRequest
	err := api.Decode(r.Data(), &req)
	if err == nil {
		err = req.Validate()
	}
	var reply api.TicketReply
	if err == nil {
		reply, err = e.desk.login(&req, time.Now())
	}
	if err != nil {
		f := fault.From(err)
		e.meters.issued(ctx, string(f.Code))
		_ = r.Error(string(f.Code), f.Message, f.JSON()) // a connection that is gone: nobody to tell
		return
	}
	e.meters.issued(ctx, "ok")
	body, err := json.Marshal(reply)
	if err == nil {
		_ = r.Respond(body)
	}
}

func (e *endpoints) keys(r micro.Request) {
	reply := wirepb.KeysReply{Jwks: e.jwks()}
	if body, err := reply.MarshalVT(); err == nil {
		_ = r.Respond(body)
	}
}

func (e *endpoints) redeem(r micro.Request) {
	req := new(wirepb.RedeemRequest)
	if err := req.UnmarshalVT(r.Data()); err != nil {
		e.answer(r.Reply(), &wirepb.RedeemReply{Status: wirepb.RedeemStatus_REDEEM_STATUS_REFUSED})
		return
	}
	e.run(r, req.GetDeadlineMs(), "ticketing.redeem", func(ctx context.Context) vtMessage {
		return e.redeemer.redeem(ctx, req, time.Now())
	})
}

func (e *endpoints) release(r micro.Request) {
	req := new(wirepb.ReleaseRequest)
	if err := req.UnmarshalVT(r.Data()); err != nil {
		e.answer(r.Reply(), &wirepb.ReleaseReply{Status: wirepb.RedeemStatus_REDEEM_STATUS_REFUSED})
		return
	}
	e.run(r, req.GetDeadlineMs(), "ticketing.release", func(ctx context.Context) vtMessage {
		return e.redeemer.release(ctx, req)
	})
}

type vtMessage interface{ MarshalVT() ([]byte, error) }

// run waits for a turn and then does the call in a goroutine of its own. It drops what is late,
// before and after the wait.
func (e *endpoints) run(r micro.Request, deadlineMS int64, name string, call func(context.Context) vtMessage) {
	now := time.Now()
	if e.late.Late(e.ctx, r.Subject(), deadlineMS, now) {
		e.meters.late.Add(e.ctx, 1)
		return
	}
	ctx, cancel := context.WithDeadline(e.traced(r), deadline.End(deadlineMS, now, maxWork))
	select {
	case e.turns <- struct{}{}:
	case <-ctx.Done():
		cancel()
		e.meters.late.Add(e.ctx, 1)
		return
	}
	e.running.Add(1)
	go func() {
		defer e.running.Add(-1)
		defer func() { <-e.turns }()
		defer cancel()
		ctx, span := e.meters.tracer.Start(ctx, name)
		defer span.End()
		e.answer(r.Reply(), call(ctx))
	}()
}

// answer publishes a reply. micro's own Respond writes to the request's statistics, which its
// goroutine reads: not for other goroutines.
func (e *endpoints) answer(to string, m vtMessage) {
	if to == "" {
		return
	}
	if body, err := m.MarshalVT(); err == nil {
		_ = e.nc.Publish(to, body) // a connection that is gone: nobody to tell
	}
}

func (e *endpoints) traced(r micro.Request) context.Context {
	return telemetry.Extract(e.ctx, nats.Header(r.Headers()))
}
