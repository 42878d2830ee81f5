package rpc

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/wire"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// targetOf reads the target of a call on the subject of h.
func targetOf(p *wirepb.Target, h slot.Hash) (slot.Target, error) {
	t, err := wire.ParseTarget(p)
	if err == nil && t.Hash != h {
		err = wire.ErrTarget
	}
	return t, err
}

func (s *Server) register(h slot.Hash, m *nats.Msg) {
	var req wirepb.RegisterRequest
	if !s.read(m, &req) || s.tooLate(m, req.DeadlineMs) {
		return
	}
	t, err := targetOf(req.Target, h)
	var reg directory.Registration
	if err == nil {
		var r directory.Route
		if r, err = routeOf(req.Route); err == nil {
			reg, err = s.leader.Register(t, r, directory.PolicyDevice, time.Now())
		}
	}
	reply := wirepb.RegisterReply{Candidate: reg.Candidate, Conflicts: wireRoutes(reg.Conflicts)}
	if reply.Status, reply.Current = s.status(t, err); !silent(reply.Status) {
		s.reply(m, &reply)
	}
}

func (s *Server) commit(h slot.Hash, m *nats.Msg) {
	var req wirepb.CommitRequest
	if !s.read(m, &req) || s.tooLate(m, req.DeadlineMs) {
		return
	}
	t, err := targetOf(req.Target, h)
	var id identity.SessionID
	if err == nil {
		id, err = sessionOf(req.SessionId)
	}
	var confirmed []identity.SessionID
	if err == nil {
		confirmed, err = sessionsOf(req.Confirmed)
	}
	if err == nil {
		err = s.leader.Commit(t, req.Candidate, id, confirmed, time.Now())
	}
	var reply wirepb.CommitReply
	var conflict *directory.Conflict
	if errors.As(err, &conflict) {
		reply.Status, reply.Conflicts = wirepb.Status_STATUS_CONFLICT, wireRoutes(conflict.Routes)
	} else {
		reply.Status, reply.Current = s.status(t, err)
	}
	if !silent(reply.Status) {
		s.reply(m, &reply)
	}
}

func (s *Server) abort(h slot.Hash, m *nats.Msg) {
	var req wirepb.AbortRequest
	if !s.read(m, &req) || s.tooLate(m, req.DeadlineMs) {
		return
	}
	t, err := targetOf(req.Target, h)
	if err == nil {
		err = s.leader.Abort(t, req.Candidate)
	}
	var reply wirepb.AbortReply
	if reply.Status, reply.Current = s.status(t, err); !silent(reply.Status) {
		s.reply(m, &reply)
	}
}

func (s *Server) touch(m *nats.Msg) {
	s.sessionBatch(m, func(t slot.Target, o directory.Owner, seqs []directory.SessionSeq, now time.Time) ([]identity.SessionID, error) {
		return s.leader.Touch(t, o, seqs, now)
	})
}

func (s *Server) unregister(m *nats.Msg) {
	s.sessionBatch(m, func(t slot.Target, o directory.Owner, seqs []directory.SessionSeq, now time.Time) ([]identity.SessionID, error) {
		return nil, s.leader.Unregister(t, o, seqs, now)
	})
}

// sessionBatch serves touch and unregister. A group that fails does not harm its siblings.
func (s *Server) sessionBatch(m *nats.Msg, do func(slot.Target, directory.Owner, []directory.SessionSeq, time.Time) ([]identity.SessionID, error)) {
	var req wirepb.SessionBatch
	if !s.read(m, &req) || s.tooLate(m, req.DeadlineMs) {
		return
	}
	o, now := directory.Owner{Gateway: req.GatewayId, Boot: req.BootId}, time.Now()
	reply := wirepb.SessionBatchReply{Groups: make([]*wirepb.SessionGroupResult, len(req.Groups))}
	for i, g := range req.Groups {
		t, err := wire.ParseTarget(g.Target)
		var seqs []directory.SessionSeq
		if err == nil {
			seqs, err = seqsOf(g.Sessions)
		}
		var missing []identity.SessionID
		if err == nil {
			missing, err = do(t, o, seqs, now)
		}
		res := &wirepb.SessionGroupResult{Missing: wireSessions(missing)}
		res.Status, res.Current = s.status(t, err)
		reply.Groups[i] = res
	}
	s.reply(m, &reply)
}

func (s *Server) restore(m *nats.Msg) {
	var req wirepb.RestoreRequest
	if !s.read(m, &req) || s.tooLate(m, req.DeadlineMs) {
		return
	}
	o, now := directory.Owner{Gateway: req.GatewayId, Boot: req.BootId}, time.Now()
	reply := wirepb.RestoreReply{Groups: make([]*wirepb.RestoreGroupResult, len(req.Groups))}
	for i, g := range req.Groups {
		t, err := wire.ParseTarget(g.Target)
		var routes []directory.Route
		if err == nil {
			routes, err = routesOf(g.Routes)
		}
		var closing []identity.SessionID
		if err == nil {
			closing, err = s.leader.Restore(t, o, routes, g.Complete, now)
		}
		res := &wirepb.RestoreGroupResult{Close: wireSessions(closing)}
		res.Status, res.Current = s.status(t, err)
		reply.Groups[i] = res
	}
	s.reply(m, &reply)
}
