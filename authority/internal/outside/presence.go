package outside

import (
	"context"
	"sync"

	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/authority/internal/leader"
	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// user serves a call about one user, if this node leads the user's slot; else it stays silent, for
// the leader hears it too.
func (o *Outside) user(uid identity.UID, op subject.UserOp, r *request) {
	t, ok := o.leader.Target(slot.OfUID(uid))
	if !ok {
		return
	}
	o.requests.Add(1)
	if op == subject.UserPush {
		o.userPush(leader.Order{Target: t, Users: []identity.UID{uid}}, r)
		return
	}
	o.userPresence(t, uid, r)
}

var founds = sync.Pool{New: func() any { return new(directory.Found) }}

func (o *Outside) userPresence(t slot.Target, uid identity.UID, r *request) {
	if err := api.Decode(r.data, &api.UserPresenceRequest{}); err != nil {
		o.fail(r, err)
		return
	}
	f := founds.Get().(*directory.Found)
	defer func() { f.Reset(); founds.Put(f) }()
	if o.leader.Lookup(t, []identity.UID{uid}, nil, f) != nil {
		return // lost meanwhile: as if it had not led
	}
	entry := api.UserPresence{UID: uid, Status: api.Unknown, Sessions: []api.SessionPresence{}}
	switch f.Entries[0].Presence {
	case directory.PresenceOnline:
		entry.Status = api.Online
	case directory.PresenceOffline:
		entry.Status = api.Offline
	}
	for _, s := range f.Of(0) {
		entry.Sessions = append(entry.Sessions, api.SessionPresence{
			SessionID: s.Session, GatewayID: s.Gateway, BootID: s.Boot, OwnerSeq: s.OwnerSeq, Device: s.Device,
			Listener: s.Listener, ConnectedAt: api.AtMS(s.ConnectedAt), LastActiveAt: api.AtMS(s.LastActive),
		})
	}
	o.answer(r, &entry)
}

// presence serves sy.v1.presence.
func (o *Outside) presence(ctx context.Context, r *request) {
	var req api.PresenceRequest
	err := api.Decode(r.data, &req)
	if err == nil {
		err = req.Validate()
	}
	if err != nil {
		o.fail(r, err)
		return
	}
	found := o.dispatch.Lookup(ctx, req.Users, traced(ctx))
	reply := api.PresenceReply{Users: make([]api.UserPresence, len(req.Users))}
	for i, u := range req.Users {
		reply.Users[i] = userPresence(u, found[u])
	}
	o.answer(r, &reply)
}

// userPresence reads a leader's answer; nil is none, and so unknown (I7).
func userPresence(uid identity.UID, e *wirepb.UserEndpoints) api.UserPresence {
	out := api.UserPresence{UID: uid, Status: api.Unknown, Sessions: []api.SessionPresence{}}
	switch e.GetPresence() {
	case wirepb.Presence_PRESENCE_ONLINE:
		out.Status = api.Online
	case wirepb.Presence_PRESENCE_OFFLINE:
		out.Status = api.Offline
	}
	for _, p := range e.GetRoutes() {
		id, err := identity.SessionIDFromBytes(p.SessionId)
		if err != nil {
			continue
		}
		d := identity.Device{ID: p.DeviceId, Flag: p.DeviceFlag}
		if p.DeviceLevel == wirepb.Level_LEVEL_MASTER {
			d.Level = identity.LevelMaster
		}
		out.Sessions = append(out.Sessions, api.SessionPresence{
			SessionID: id, GatewayID: p.GatewayId, BootID: p.BootId, OwnerSeq: p.OwnerSeq, Device: d,
			Listener: p.Listener, ConnectedAt: api.AtMS(p.ConnectedAtMs), LastActiveAt: api.AtMS(p.LastActiveMs),
		})
	}
	return out
}
