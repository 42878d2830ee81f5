package presence

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/telemetry"
	"github.com/switchyard-io/switchyard/shared/wire"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// Register opens a pending candidate for a session at the leader of its user's slot; nothing is
// visible before Commit. It follows the leader until ctx ends. A candidate whose answer was lost
// times out by itself.
//
// Errors: fault.ErrDuplicateSession (the realm's policy), fault.ErrQueueFull, ErrFenced,
// fault.ErrUnavailable (no leader that answers within ctx), fault.ErrInternal (the leader
// refused the request's form).
func (c *Client) Register(ctx context.Context, r Record) (Registration, error) {
	h := slot.Hash(r.Session.HashSlot())
	req := &wirepb.RegisterRequest{Route: c.route(r)}
	var reply wirepb.RegisterReply
	target, err := c.follow(ctx, h, call{
		op: subject.SlotRegister,
		encode: func(t slot.Target, deadlineMS int64) ([]byte, error) {
			req.Target, req.DeadlineMs = wire.Target(t), deadlineMS
			return req.MarshalVT()
		},
		decode: func(b []byte) (wirepb.Status, *wirepb.Target, error) {
			reply = wirepb.RegisterReply{}
			err := reply.UnmarshalVT(b)
			return reply.Status, reply.Current, err
		},
	})
	if err != nil {
		return Registration{}, err
	}
	if err := statusError(reply.Status); err != nil && reply.Status != wirepb.Status_STATUS_CONFLICT {
		return Registration{}, err
	}
	return Registration{
		Target: target, Candidate: reply.Candidate, Session: r.Session, Conflicts: c.conflicts(reply.Conflicts),
	}, nil
}

// Commit makes a candidate the visible route, in place of the confirmed sessions. Conflicts that
// are returned are not confirmed yet: nothing changed; act on them and commit again. Committing
// again after a success succeeds.
//
// ErrExpired: the candidate is gone, or the term it was made in is; register again. After any
// other error than that it is not known whether the route is visible: Abort and Unregister it.
// Errors are otherwise those of Register.
func (c *Client) Commit(ctx context.Context, r Registration, confirmed []identity.SessionID) ([]Conflict, error) {
	req := &wirepb.CommitRequest{Target: wire.Target(r.Target), Candidate: r.Candidate, SessionId: r.Session[:]}
	for i := range confirmed {
		req.Confirmed = append(req.Confirmed, confirmed[i][:])
	}
	var reply wirepb.CommitReply
	_, err := c.follow(ctx, r.Target.Hash, call{
		op:     subject.SlotCommit,
		pinned: &r.Target,
		encode: func(_ slot.Target, deadlineMS int64) ([]byte, error) {
			req.DeadlineMs = deadlineMS
			return req.MarshalVT()
		},
		decode: func(b []byte) (wirepb.Status, *wirepb.Target, error) {
			reply = wirepb.CommitReply{}
			err := reply.UnmarshalVT(b)
			return reply.Status, reply.Current, err
		},
	})
	if err != nil {
		return nil, err
	}
	if reply.Status == wirepb.Status_STATUS_CONFLICT {
		conflicts := c.conflicts(reply.Conflicts)
		if len(conflicts) == 0 {
			return nil, fault.Wrap(fault.Internal, "internal error", errors.New("commit conflict without routes"))
		}
		return conflicts, nil
	}
	return nil, statusError(reply.Status)
}

// Abort drops a candidate. It is sent once and not waited for: a candidate that does not hear of
// it times out.
func (c *Client) Abort(r Registration) {
	end := time.Now().Add(c.cfg.AttemptTimeout)
	req := &wirepb.AbortRequest{Target: wire.Target(r.Target), Candidate: r.Candidate, DeadlineMs: end.UnixMilli()}
	data, err := req.MarshalVT()
	if err != nil {
		return
	}
	_ = c.caller.Call(subject.Slot(r.Target.Hash, subject.SlotAbort), data, nil, end, func(*nats.Msg, error) bool { return true })
}

// call is one kind of request to the leader of a slot.
type call struct {
	op     subject.SlotOp
	pinned *slot.Target // only this leader in this term can answer; nil: follow
	encode func(t slot.Target, deadlineMS int64) ([]byte, error)
	decode func([]byte) (wirepb.Status, *wirepb.Target, error)
}

// follow sends a call to the leader of h until it is answered with a status that is not about
// leadership, ctx ends, or MaxAttempts are used up. It returns the target that answered.
func (c *Client) follow(ctx context.Context, h slot.Hash, k call) (slot.Target, error) {
	last := error(fault.ErrUnavailable)
	for attempt := range c.cfg.MaxAttempts {
		if attempt > 0 {
			c.counts.retries.Add(1)
			if !c.pause(ctx, attempt) {
				break
			}
		}
		t, ok := c.target(h)
		if k.pinned != nil {
			if ok && t.Newer(*k.pinned) {
				return t, ErrExpired
			}
			t, ok = *k.pinned, true
		}
		if !ok {
			last = fault.Wrap(fault.Unavailable, "temporarily unavailable", errors.New("slot has no leader"))
			continue
		}
		status, current, err := c.attempt(ctx, t, k)
		if err != nil {
			c.doubt(t)
			last = err
			continue
		}
		switch status {
		case wirepb.Status_STATUS_STALE_TARGET, wirepb.Status_STATUS_NOT_LEADER:
			c.counts.stale.Add(1)
			c.learnWire(h, current)
			last = fault.Wrap(fault.Unavailable, "temporarily unavailable", errors.New("stale target"))
		case wirepb.Status_STATUS_UNAVAILABLE:
			last = fault.Wrap(fault.Unavailable, "temporarily unavailable", errors.New("leader cannot decide now"))
		default:
			return t, nil
		}
	}
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return slot.Target{}, err
	}
	return slot.Target{}, fault.Wrap(fault.Unavailable, "temporarily unavailable", last)
}

// attempt sends a call once and waits for its answer.
func (c *Client) attempt(ctx context.Context, t slot.Target, k call) (wirepb.Status, *wirepb.Target, error) {
	end := c.deadline(ctx)
	data, err := k.encode(t, end.UnixMilli())
	if err != nil {
		return 0, nil, fault.Wrap(fault.Internal, "internal error", err)
	}
	msg, err := c.request(ctx, subject.Slot(t.Hash, k.op), data, end)
	if err != nil {
		return 0, nil, err
	}
	status, current, err := k.decode(msg.Data)
	if err != nil || status == wirepb.Status_STATUS_UNSPECIFIED {
		c.counts.malformed.Add(1)
		return 0, nil, fault.Wrap(fault.Internal, "internal error", errors.New("malformed answer"))
	}
	return status, current, nil
}

// request sends data and waits for one reply until end or until ctx ends.
func (c *Client) request(ctx context.Context, subj string, data []byte, end time.Time) (*nats.Msg, error) {
	type answer struct {
		msg *nats.Msg
		err error
	}
	var hdr nats.Header
	if telemetry.Traced(ctx) {
		hdr = nats.Header{}
		telemetry.Inject(ctx, hdr)
	}
	c.counts.attempts.Add(1)
	ch := make(chan answer, 1)
	err := c.caller.Call(subj, data, hdr, end, func(m *nats.Msg, err error) bool {
		ch <- answer{m, err} // one answer or one error: never blocks
		return true
	})
	if err != nil {
		return nil, c.count(err)
	}
	select {
	case a := <-ch:
		return a.msg, c.count(a.err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// count counts why a request failed, and returns err.
func (c *Client) count(err error) error {
	switch {
	case err == nil:
	case errors.Is(err, nats.ErrNoResponders):
		c.counts.noResponders.Add(1)
	case errors.Is(err, fault.ErrTimeout):
		c.counts.timeouts.Add(1)
	}
	return err
}

// pause waits between two attempts: full jitter over a doubling bound, ended early by ctx. It
// reports whether there is time for another.
func (c *Client) pause(ctx context.Context, attempt int) bool {
	t := time.NewTimer(c.backoff(attempt))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// backoff is the pause before the given attempt, 1 for the first repeat.
func (c *Client) backoff(attempt int) time.Duration {
	d := c.cfg.BackoffMax
	if shift := attempt - 1; shift < 16 {
		d = min(d, c.cfg.BackoffMin<<shift)
	}
	return d/2 + rand.N(d/2+1)
}

// statusError is what a status that ends a call means to its caller.
func statusError(s wirepb.Status) error {
	switch s {
	case wirepb.Status_STATUS_OK:
		return nil
	case wirepb.Status_STATUS_EXPIRED:
		return ErrExpired
	case wirepb.Status_STATUS_FENCED:
		return ErrFenced
	case wirepb.Status_STATUS_QUEUE_FULL:
		return fault.ErrQueueFull
	case wirepb.Status_STATUS_DUPLICATE:
		return fault.ErrDuplicateSession
	}
	return fault.Wrap(fault.Internal, "internal error", fmt.Errorf("leader answered %v", s))
}
