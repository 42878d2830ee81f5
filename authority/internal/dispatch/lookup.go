package dispatch

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// Lookup asks the leaders who is online. Users that are missing in the result are unknown: no
// leader answered for them. It does not wait for leaders.
func (d *Dispatcher) Lookup(ctx context.Context, users []identity.UID, h nats.Header) map[identity.UID]*wirepb.UserEndpoints {
	out := make(map[identity.UID]*wirepb.UserEndpoints, len(users))
	deadline := time.Now().Add(d.cfg.LookupTimeout)
	x := &exchange{
		op: subject.AuthorityEndpoints, header: h, wait: deadline, rounds: 2, answer: deadline,
		encode: func(gs []*group) ([]byte, error) {
			req := wirepb.EndpointsRequest{DeadlineMs: deadline.UnixMilli()}
			for _, g := range gs {
				req.Groups = append(req.Groups, g.wire())
			}
			return req.MarshalVT()
		},
		decode: func(data []byte, gs []*group) ([]verdict, error) {
			var r wirepb.EndpointsReply
			if err := r.UnmarshalVT(data); err != nil {
				return nil, fault.From(err)
			}
			verdicts := make([]verdict, len(r.Groups))
			for i, res := range r.Groups {
				verdicts[i] = verdict{res.Status, res.Current}
				if res.Status != wirepb.Status_STATUS_OK || i >= len(gs) || len(res.Users) < len(gs[i].users) {
					continue
				}
				for n, u := range gs[i].users {
					out[identity.UID(u)] = res.Users[n]
				}
			}
			return verdicts, nil
		},
		failed: func(*group, fault.Code) {},
	}
	d.run(ctx, x, groupsOf(users, nil))
	return out
}

// errRefused: the one bound that owners have of a session's own is that of its groups.
var errRefused = fault.New(fault.Forbidden, "a session is in too many groups")

// Action is an owner action for users and sessions.
type Action struct {
	Users    []identity.UID
	Sessions []identity.SessionID
	Kind     wirepb.ActionKind
	Reason   string
	Group    string
	Except   identity.SessionID // this session is left alone
}

// Act has the leaders do an action and returns for how many sessions it was done. The error is nil
// when it was done for all that there are: else fault.ErrUnavailable (a slot without leader, or
// rebuilding), fault.ErrTimeout (an owner did not confirm), FORBIDDEN (an owner refused it for some
// session; it is done for the others), or another *fault.Error.
func (d *Dispatcher) Act(ctx context.Context, a Action, h nats.Header) (done int, err error) {
	now := time.Now()
	wait := now.Add(d.cfg.LeaderWait)
	owners := wait.Add(d.cfg.OwnerTimeout)
	refused := false
	x := &exchange{
		op: subject.AuthorityAct, header: h, wait: wait, answer: owners.Add(answerMargin),
		encode: func(gs []*group) ([]byte, error) {
			req := wirepb.AuthorityActRequest{Kind: a.Kind, Reason: a.Reason, Group: a.Group,
				DeadlineMs: time.Now().Add(d.cfg.OwnerTimeout).UnixMilli()}
			if !a.Except.IsZero() {
				req.ExceptSession = a.Except[:]
			}
			for _, g := range gs {
				req.Groups = append(req.Groups, g.wire())
			}
			return req.MarshalVT()
		},
		decode: func(data []byte, gs []*group) ([]verdict, error) {
			var r wirepb.AuthorityActReply
			if err := r.UnmarshalVT(data); err != nil {
				return nil, fault.From(err)
			}
			verdicts := make([]verdict, len(r.Groups))
			for i, res := range r.Groups {
				verdicts[i] = verdict{res.Status, res.Current}
				done += int(res.Done)
				if len(res.Unknown) > 0 {
					err = fault.ErrTimeout
				}
				refused = refused || res.Refused
			}
			return verdicts, nil
		},
		failed: func(_ *group, code fault.Code) { err = fault.New(code, "not done for all sessions") },
	}
	if left := d.run(ctx, x, groupsOf(a.Users, a.Sessions)); len(left) > 0 {
		err = fault.ErrUnavailable
	}
	if refused { // whatever else: trying again does not help
		err = errRefused
	}
	return done, err
}
