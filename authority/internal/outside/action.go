package outside

import (
	"context"

	"github.com/switchyard-io/switchyard/authority/internal/dispatch"
	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// kick serves sy.v1.kick.
func (o *Outside) kick(ctx context.Context, r *request) {
	var req api.KickRequest
	err := api.Decode(r.data, &req)
	if err == nil {
		err = req.Validate()
	}
	if err != nil {
		o.fail(r, err)
		return
	}
	a := dispatch.Action{Kind: wirepb.ActionKind_ACTION_KIND_KICK, Reason: req.Reason, Except: req.ExceptSession}
	if req.UID != "" {
		a.Users = []identity.UID{req.UID}
	} else {
		a.Sessions = []identity.SessionID{req.SessionID}
	}
	n, err := o.dispatch.Act(ctx, a, traced(ctx))
	if err != nil {
		o.fail(r, err)
		return
	}
	o.answer(r, &api.KickReply{Kicked: n})
}

func (o *Outside) groupJoin(ctx context.Context, r *request) {
	o.group(ctx, r, wirepb.ActionKind_ACTION_KIND_GROUP_JOIN)
}

func (o *Outside) groupLeave(ctx context.Context, r *request) {
	o.group(ctx, r, wirepb.ActionKind_ACTION_KIND_GROUP_LEAVE)
}

// group serves sy.v1.group.join and leave.
func (o *Outside) group(ctx context.Context, r *request, kind wirepb.ActionKind) {
	var req api.GroupRequest
	err := api.Decode(r.data, &req)
	if err == nil {
		err = req.Validate()
	}
	if err != nil {
		o.fail(r, err)
		return
	}
	n, err := o.dispatch.Act(ctx, dispatch.Action{Users: req.Users, Sessions: req.Sessions, Kind: kind, Group: req.Group}, traced(ctx))
	if err != nil {
		o.fail(r, err)
		return
	}
	o.answer(r, &api.GroupReply{Changed: n})
}
