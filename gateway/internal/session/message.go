package session

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"golang.org/x/time/rate"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/ticket"
)

// Message handles one whole message of the client. Its bytes are not kept.
func (s *Session) Message(msg []byte) {
	f, err := s.conn.Codec().Decode(msg)
	if errors.Is(err, frame.ErrNotFrame) {
		s.finish(fault.CloseProtocolViolation)
		return
	}
	switch {
	case f.Route > frame.RouteAuthenticate && s.outside(): // whatever else is wrong with it
		err = fault.ErrUnauthenticated
	case err == nil:
		err = s.handle(f)
	}
	if err == nil {
		s.violations = 0
		return
	}
	e := fault.From(err)
	reply := s.conn.Codec().AppendError(nil, f, e)
	if e.Code == fault.InvalidRequest || e.Code == fault.Unauthenticated {
		s.host.stats.violations.Add(1)
		if s.violations++; s.violations >= s.host.cfg.MaxViolations {
			s.finish(fault.CloseProtocolViolation, reply)
			return
		}
	}
	s.send(reply)
}

// send queues a message; a connection that cannot take it is being closed by the transport.
func (s *Session) send(msg []byte) { _ = s.conn.Send(msg) }

func (s *Session) respond(f frame.Frame, payload []byte) {
	s.send(s.conn.Codec().Append(nil, frame.Frame{
		Kind: frame.KindResponse, Route: f.Route, ID: f.ID, Seq: f.Seq, Payload: payload,
	}))
}

func (s *Session) current() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// outside reports whether the client has not authenticated yet.
func (s *Session) outside() bool {
	st := s.current()
	return st == connected || st == authenticating
}

func (s *Session) handle(f frame.Frame) error {
	st := s.current()
	switch {
	case st == closed:
		return nil
	case f.Kind == frame.KindResponse && f.Route == frame.RouteHeartbeat && st == active:
		return nil
	case f.Kind != frame.KindRequest:
		return fault.New(fault.InvalidRequest, "not a request")
	case f.ID == 0:
		return fault.New(fault.InvalidRequest, "id is needed")
	case f.Route < frame.FirstApplication && f.Seq != 0:
		return fault.New(fault.InvalidRequest, "seq must be 0 on this route")
	case f.Route == frame.RouteAuthenticate && st == connected:
		return s.authenticate(f)
	case f.Route == frame.RouteAuthenticate && st == authenticating:
		return fault.New(fault.InvalidRequest, "authentication is under way")
	case f.Route == frame.RouteAuthenticate:
		return fault.New(fault.InvalidRequest, "already authenticated")
	case st != active:
		return fault.ErrUnauthenticated
	}
	if err := s.allow(); err != nil {
		return err
	}
	return s.serve(f)
}

// allow is the rate limit of an active session's requests.
func (s *Session) allow() error {
	cfg := s.host.cfg
	if s.limiter == nil {
		s.limiter = rate.NewLimiter(rate.Limit(cfg.RequestRate), cfg.RequestBurst)
	}
	if s.limiter.Allow() {
		return nil
	}
	s.host.stats.rateLimited.Add(1)
	now := s.host.now()
	if now-s.refusedAt > time.Second {
		s.refusals = 0
	}
	s.refusedAt = now
	if s.refusals++; s.refusals >= refusedBursts*cfg.RequestBurst {
		s.finish(fault.CloseRateLimited)
	}
	return fault.ErrRateLimited.After(max(time.Millisecond, time.Duration(float64(time.Second)/cfg.RequestRate)))
}

// serve answers a request of an active session.
func (s *Session) serve(f frame.Frame) error {
	switch f.Route {
	case frame.RouteHeartbeat:
		if _, err := decodeHeartbeat(f.Payload); err != nil {
			return err
		}
	case frame.RouteRenew:
		return s.renew(f)
	case frame.RouteAcknowledge:
		var req acknowledge
		if err := decode(f.Payload, &req); err != nil {
			return err
		}
		if len(req.Seqs) > MaxAckSeqs {
			return fault.Newf(fault.InvalidRequest, "at most %d seqs", MaxAckSeqs)
		}
		s.acknowledge(req.Seqs)
	case frame.RouteJoinGroup, frame.RouteLeaveGroup:
		if err := s.changeGroup(f); err != nil {
			return err
		}
	default:
		if f.Route < frame.FirstApplication {
			return fault.New(fault.InvalidRequest, "reserved route")
		}
		return fault.ErrRouteNotFound
	}
	s.respond(f, nil)
	return nil
}

func (s *Session) changeGroup(f frame.Frame) error {
	var req membership
	if err := decode(f.Payload, &req); err != nil {
		return err
	}
	if !identity.ValidGroup(req.Group) {
		return fault.New(fault.InvalidRequest, "group is malformed")
	}
	g := s.Grant()
	if g == nil {
		return nil // closed since
	}
	if !ticket.GrantsGroup(g.Groups, req.Group) {
		return fault.ErrForbidden
	}
	if f.Route == frame.RouteLeaveGroup {
		s.host.deps.Groups.Leave(s, req.Group)
		return nil
	}
	_, err := s.host.deps.Groups.Join(s, req.Group)
	return err
}

// renew asks for a new reconnect ticket on its own goroutine, within the in-flight bound.
func (s *Session) renew(f frame.Frame) error {
	var req renew
	if err := decode(f.Payload, &req); err != nil {
		return err
	}
	if req.Ticket == "" {
		return fault.New(fault.InvalidRequest, "ticket is needed")
	}
	if !s.enter() {
		return fault.ErrQueueFull
	}
	h, request := s.host, frame.Frame{Route: f.Route, ID: f.ID}
	h.tasks.Go(func() {
		defer s.leave()
		ctx, cancel := context.WithTimeout(h.ctx, h.cfg.RequestTimeout)
		defer cancel()
		fresh, err := h.deps.Activator.Renew(ctx, s, req.Ticket)
		if err != nil {
			s.send(s.conn.Codec().AppendError(nil, request, fault.From(err)))
			return
		}
		payload, err := json.Marshal(fresh)
		if err != nil { // a string and a number: cannot fail
			panic(err)
		}
		s.respond(request, payload)
	})
	return nil
}

func (s *Session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight >= s.host.cfg.MaxInFlight {
		return false
	}
	s.inFlight++
	return true
}

func (s *Session) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
}
