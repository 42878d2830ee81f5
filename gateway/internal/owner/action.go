package owner

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// endings says how a session is closed by each action that closes.
var endings = map[wirepb.ActionKind]Ending{
	wirepb.ActionKind_ACTION_KIND_REPLACE:      {Code: fault.CloseReplaced, Action: DuplicateLogin},
	wirepb.ActionKind_ACTION_KIND_KICK:         {Code: fault.CloseForcedLogout, Action: Kick},
	wirepb.ActionKind_ACTION_KIND_FORCE_LOGOUT: {Code: fault.CloseForcedLogout, Action: ForceLogout},
}

// onAction does one action for exact sessions. The answer is sent once each of them can receive
// nothing any more, where the action closes (I1). A request past its deadline is dropped: whoever
// sent it has given up.
func (o *Owner) onAction(msg *nats.Msg) {
	var req wirepb.OwnerAction
	if err := req.UnmarshalVT(msg.Data); err != nil || len(req.Sessions) > o.cfg.MaxAddresses {
		o.counts.malformed.Add(1)
		return
	}
	if !o.here(req.GatewayId, req.BootId) {
		return
	}
	if o.late.Late(context.Background(), msg.Subject, req.DeadlineMs, time.Now()) {
		return
	}
	act, ok := o.action(&req)
	if !ok {
		o.counts.malformed.Add(1)
		return
	}
	results := make([]wirepb.ActionResult, len(req.Sessions))
	for i, a := range req.Sessions {
		o.counts.actions.Add(1)
		s, ok := o.exact(a)
		if !ok {
			o.counts.gone.Add(1)
			results[i] = wirepb.ActionResult_ACTION_RESULT_GONE
			continue
		}
		results[i] = act(s)
	}
	if msg.Reply != "" {
		o.publish(msg.Reply, &wirepb.OwnerActionReply{Results: results})
	}
}

// action is what a request asks for, as a function of the session.
func (o *Owner) action(req *wirepb.OwnerAction) (func(Session) wirepb.ActionResult, bool) {
	if e, ok := endings[req.Kind]; ok {
		e.Reason = req.Reason
		return func(s Session) wirepb.ActionResult {
			s.End(e)
			o.counts.closed.Add(1)
			return wirepb.ActionResult_ACTION_RESULT_DONE
		}, true
	}
	if !identity.ValidGroup(req.Group) {
		return nil, false
	}
	switch req.Kind {
	case wirepb.ActionKind_ACTION_KIND_GROUP_JOIN:
		return func(s Session) wirepb.ActionResult {
			changed, err := o.groups.Join(s, req.Group)
			switch {
			case errors.Is(err, errEnded):
				return wirepb.ActionResult_ACTION_RESULT_GONE
			case errors.Is(err, errTooMany):
				return wirepb.ActionResult_ACTION_RESULT_REFUSED
			case err != nil:
				return wirepb.ActionResult_ACTION_RESULT_FAILED
			}
			return changeResult(changed)
		}, true
	case wirepb.ActionKind_ACTION_KIND_GROUP_LEAVE:
		return func(s Session) wirepb.ActionResult { return changeResult(o.groups.Leave(s, req.Group)) }, true
	}
	return nil, false
}

func changeResult(changed bool) wirepb.ActionResult {
	if changed {
		return wirepb.ActionResult_ACTION_RESULT_DONE
	}
	return wirepb.ActionResult_ACTION_RESULT_UNCHANGED
}
