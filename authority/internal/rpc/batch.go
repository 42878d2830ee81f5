package rpc

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/authority/internal/leader"
	"github.com/switchyard-io/switchyard/shared/deadline"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/wire"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// group is one hash slot's part of a batch.
type group struct {
	target   slot.Target
	users    []identity.UID
	sessions []identity.SessionID
}

func groupOf(p *wirepb.UserGroup) (g group, err error) {
	if g.target, err = wire.ParseTarget(p.GetTarget()); err != nil {
		return g, err
	}
	g.users = usersOf(p.Uids)
	g.sessions, err = sessionsOf(p.SessionIds)
	return g, err
}

func (s *Server) endpoints(m *nats.Msg) {
	var req wirepb.EndpointsRequest
	if !s.read(m, &req) || s.tooLate(m, req.DeadlineMs) {
		return
	}
	reply := wirepb.EndpointsReply{Groups: make([]*wirepb.EndpointsGroupResult, len(req.Groups))}
	var found directory.Found
	for i, p := range req.Groups {
		found.Reset()
		g, err := groupOf(p)
		if err == nil {
			err = s.leader.Lookup(g.target, g.users, g.sessions, &found)
		}
		res := &wirepb.EndpointsGroupResult{}
		if res.Status, res.Current = s.status(g.target, err); err == nil {
			res.Users = make([]*wirepb.UserEndpoints, len(found.Entries))
			for n, e := range found.Entries {
				res.Users[n] = &wirepb.UserEndpoints{Presence: wirePresence(e.Presence), Routes: wireRoutes(found.Of(n))}
			}
		}
		reply.Groups[i] = res
	}
	s.reply(m, &reply)
}

func wirePresence(p directory.Presence) wirepb.Presence {
	switch p {
	case directory.PresenceOnline:
		return wirepb.Presence_PRESENCE_ONLINE
	case directory.PresenceOffline:
		return wirepb.Presence_PRESENCE_OFFLINE
	default:
		return wirepb.Presence_PRESENCE_UNKNOWN
	}
}

// push serves a batch of pushes. A group that fails does not harm its siblings; the reply goes out
// when the last group is done.
func (s *Server) push(m *nats.Msg) {
	var req wirepb.AuthorityPushRequest
	if !s.read(m, &req) || req.Push == nil || s.tooLate(m, req.DeadlineMs) {
		return
	}
	reply := &wirepb.AuthorityPushReply{Groups: make([]*wirepb.PushGroupResult, len(req.Groups))}
	var left atomic.Int64
	left.Store(int64(len(req.Groups)) + 1)
	done := func() {
		if left.Add(-1) == 0 {
			s.reply(m, reply)
		}
	}
	// After it the caller does not want it sent any more. No allowance for clocks: what is sent later
	// than the caller has reported may arrive twice, what is not held is reported as unknown.
	hold := time.UnixMilli(req.DeadlineMs)
	header := leader.Trace(m.Header)
	for i, p := range req.Groups {
		g, err := groupOf(p)
		if err != nil {
			reply.Groups[i] = s.pushResult(g.target, leader.Outcome{Err: err})
			done()
			continue
		}
		s.leader.Push(leader.Order{
			Target: g.target, Users: g.users, Sessions: g.sessions, Push: req.Push,
			HoldUntil: hold, Header: header,
			Done: func(out leader.Outcome) {
				reply.Groups[i] = s.pushResult(g.target, out)
				done()
			},
		})
	}
	done()
}

func (s *Server) pushResult(t slot.Target, out leader.Outcome) *wirepb.PushGroupResult {
	res := &wirepb.PushGroupResult{Sessions: make([]*wirepb.SessionResult, len(out.Sessions))}
	res.Status, res.Current = s.status(t, out.Err)
	for i := range out.Sessions {
		r := &out.Sessions[i]
		res.Sessions[i] = &wirepb.SessionResult{Uid: string(r.UID), SessionId: r.Session[:], GatewayId: r.Gateway, Delivery: r.Delivery}
	}
	for _, u := range out.Offline {
		res.Offline = append(res.Offline, string(u))
	}
	for _, u := range out.Unknown {
		res.Unknown = append(res.Unknown, string(u))
	}
	return res
}

func (s *Server) act(m *nats.Msg) {
	var req wirepb.AuthorityActRequest
	if !s.read(m, &req) || s.tooLate(m, req.DeadlineMs) {
		return
	}
	var except identity.SessionID
	if len(req.ExceptSession) > 0 {
		var err error
		if except, err = sessionOf(req.ExceptSession); err != nil {
			s.invalid.Add(1)
			return
		}
	}
	reply := &wirepb.AuthorityActReply{Groups: make([]*wirepb.ActGroupResult, len(req.Groups))}
	var left atomic.Int64
	left.Store(int64(len(req.Groups)) + 1)
	by := deadline.End(req.DeadlineMs, time.Now(), s.cfg.OwnerTimeout)
	finish := func() {
		if left.Add(-1) == 0 {
			s.reply(m, reply)
		}
	}
	for i, p := range req.Groups {
		g, err := groupOf(p)
		done := func(n int, unknown []identity.UID, err error) {
			res := &wirepb.ActGroupResult{Done: uint32(n), Refused: errors.Is(err, leader.ErrRefused)}
			if res.Refused {
				err = nil
			}
			res.Status, res.Current = s.status(g.target, err)
			for _, u := range unknown {
				res.Unknown = append(res.Unknown, string(u))
			}
			reply.Groups[i] = res
			finish()
		}
		if err != nil {
			done(0, nil, err)
			continue
		}
		s.leader.Act(leader.Action{
			Target: g.target, Users: g.users, Sessions: g.sessions, Kind: req.Kind, Reason: req.Reason,
			Group: req.Group, Except: except, Deadline: by, Done: done,
		})
	}
	finish()
}
