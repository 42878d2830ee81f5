package rpc

import (
	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// sessionOf reads a session id; an error is directory.ErrInvalid.
func sessionOf(b []byte) (identity.SessionID, error) {
	id, err := identity.SessionIDFromBytes(b)
	if err != nil {
		return id, directory.ErrInvalid
	}
	return id, nil
}

func sessionsOf(bs [][]byte) ([]identity.SessionID, error) {
	if len(bs) == 0 {
		return nil, nil
	}
	out := make([]identity.SessionID, len(bs))
	for i, b := range bs {
		id, err := sessionOf(b)
		if err != nil {
			return nil, err
		}
		out[i] = id
	}
	return out, nil
}

func wireSessions(ids []identity.SessionID) [][]byte {
	if len(ids) == 0 {
		return nil
	}
	out := make([][]byte, len(ids))
	for i := range ids {
		out[i] = ids[i][:]
	}
	return out
}

// usersOf checks the form only; the directory checks that they belong to the slot.
func usersOf(uids []string) []identity.UID {
	if len(uids) == 0 {
		return nil
	}
	out := make([]identity.UID, len(uids))
	for i, u := range uids {
		out[i] = identity.UID(u)
	}
	return out
}

func seqsOf(ps []*wirepb.SessionSeq) ([]directory.SessionSeq, error) {
	out := make([]directory.SessionSeq, len(ps))
	for i, p := range ps {
		id, err := sessionOf(p.SessionId)
		if err != nil {
			return nil, err
		}
		out[i] = directory.SessionSeq{Session: id, UID: identity.UID(p.Uid), OwnerSeq: p.OwnerSeq, LastActive: p.LastActiveMs}
	}
	return out, nil
}

// routeOf reads a route; an error is directory.ErrInvalid.
func routeOf(p *wirepb.Route) (directory.Route, error) {
	if p == nil {
		return directory.Route{}, directory.ErrInvalid
	}
	id, err := sessionOf(p.SessionId)
	if err != nil {
		return directory.Route{}, err
	}
	uid, err := identity.ParseUID(p.Uid)
	if err != nil || !identity.ValidNode(p.GatewayId) || !identity.ValidNode(p.BootId) {
		return directory.Route{}, directory.ErrInvalid
	}
	d := identity.Device{ID: p.DeviceId, Flag: p.DeviceFlag}
	if p.DeviceLevel == wirepb.Level_LEVEL_MASTER {
		d.Level = identity.LevelMaster
	}
	if d, err = d.Normalize(); err != nil {
		return directory.Route{}, directory.ErrInvalid
	}
	return directory.Route{
		UID: uid, Gateway: p.GatewayId, Boot: p.BootId, Session: id, Device: d, Listener: p.Listener,
		OwnerSeq: p.OwnerSeq, ConnectedAt: p.ConnectedAtMs, LastActive: p.LastActiveMs,
	}, nil
}

func routesOf(ps []*wirepb.Route) ([]directory.Route, error) {
	out := make([]directory.Route, len(ps))
	for i, p := range ps {
		r, err := routeOf(p)
		if err != nil {
			return nil, err
		}
		out[i] = r
	}
	return out, nil
}

func wireRoute(r *directory.Route) *wirepb.Route {
	level := wirepb.Level_LEVEL_SLAVE
	if r.Device.Level == identity.LevelMaster {
		level = wirepb.Level_LEVEL_MASTER
	}
	id := r.Session // the caller's buffer is reused
	return &wirepb.Route{
		Uid: string(r.UID), GatewayId: r.Gateway, BootId: r.Boot, SessionId: id[:],
		DeviceId: r.Device.ID, DeviceFlag: r.Device.Flag, DeviceLevel: level, Listener: r.Listener,
		OwnerSeq: r.OwnerSeq, ConnectedAtMs: r.ConnectedAt, LastActiveMs: r.LastActive,
	}
}

func wireRoutes(rs []directory.Route) []*wirepb.Route {
	if len(rs) == 0 {
		return nil
	}
	out := make([]*wirepb.Route, len(rs))
	for i := range rs {
		out[i] = wireRoute(&rs[i])
	}
	return out
}
