package session

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
)

// Attempt is one authenticate request under way. A session has at most one at a time.
type Attempt struct {
	Session *Session
	Ticket  string
	Device  identity.Device // as the client says: id and flag

	request frame.Frame // route and id only
	cancel  context.CancelFunc
}

// Grant is what a ticket proved, for as long as the session lives.
type Grant struct {
	Identity identity.Identity
	Groups   []string           // globs of groups that the client may join itself
	Lineage  identity.SessionID // first session of the chain of reconnect tickets
}

// Reconnect is a fresh reconnect ticket.
type Reconnect struct {
	Ticket           string `json:"ticket"`
	ExpiresInSeconds int64  `json:"expires_in_seconds"`
}

// Renewal is a renew of which it is not known whether it used the ticket up.
type Renewal struct {
	TicketID string
	Redeemer identity.SessionID
}

// KeepRenewal remembers under which redeemer a ticket may have been used up: one renewal a session
// (I12). Of two with one ticket the first stays, else the latest. It returns the renewal that is not
// remembered, if there is one, which is r itself once the session has ended: nobody tries it again.
func (s *Session) KeepRenewal(r Renewal) (dropped *Renewal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.renewal
	if s.state != active || kept != nil && kept.TicketID == r.TicketID {
		return &r
	}
	s.renewal = &r
	return kept
}

// TakeRenewal returns what KeepRenewal remembers of the ticket, once: of two renews at the same
// time only one is the repeat.
func (s *Session) TakeRenewal(ticketID string) (redeemer identity.SessionID, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.renewal == nil || s.renewal.TicketID != ticketID {
		return identity.SessionID{}, false
	}
	redeemer, s.renewal = s.renewal.Redeemer, nil
	return redeemer, true
}

// Bind ties the entry to the session, before it is in the registry, so that a close takes it
// out. It fails when the session has ended.
func (a *Attempt) Bind(e *Entry) error {
	s := a.Session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != authenticating {
		return ErrClosed
	}
	s.entry.Store(e)
	return nil
}

// Accepts refuses an identity that the client's subprotocol cannot carry.
func (a *Attempt) Accepts(id identity.Identity) error {
	if _, err := identityJSON(a.Session.conn.Codec(), id); err != nil {
		return err
	}
	return nil
}

// Listener is the name of what accepted the connection.
func (a *Attempt) Listener() string { return a.Session.conn.Listener() }

// Announce tells the client that it is in: the last step of an activation (I1). Pushes that came
// since the commit follow the answer. It fails when the session has ended; then the caller undoes.
func (a *Attempt) Announce(g Grant, r Reconnect) error {
	s := a.Session
	who, err := identityJSON(s.conn.Codec(), g.Identity)
	if err != nil {
		return err
	}
	cfg := s.host.cfg
	payload, err := json.Marshal(authenticated{
		SessionID: s.ID(), Identity: who, Reconnect: r, GatewayID: cfg.GatewayID,
		HeartbeatIntervalMS: cfg.HeartbeatInterval.Milliseconds(), IdleTimeoutMS: cfg.IdleTimeout.Milliseconds(),
	})
	if err != nil {
		return err
	}
	answer := s.conn.Codec().Append(nil, frame.Frame{
		Kind: frame.KindResponse, Route: a.request.Route, ID: a.request.ID, Payload: payload,
	})
	if err := s.announce(answer, g); err != nil {
		return err
	}
	s.host.stats.authenticated.Add(1)
	if o := s.host.deps.Observer; o != nil {
		o.Authenticated(s)
	}
	return nil
}

func (s *Session) announce(answer []byte, g Grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != authenticating {
		return ErrClosed
	}
	if err := s.conn.Send(answer); err != nil {
		return err
	}
	s.state, s.attempt, s.grant = active, nil, &g
	s.releaseHeldLocked()
	s.scheduleLocked(s.host.now(), true)
	return nil
}

// authenticate starts an attempt and returns at once: the connection is read on meanwhile.
func (s *Session) authenticate(f frame.Frame) error {
	var req authenticate
	if err := decode(f.Payload, &req); err != nil {
		return err
	}
	if req.Ticket == nil {
		return fault.New(fault.InvalidRequest, "ticket is needed")
	}
	a := &Attempt{Session: s, Ticket: *req.Ticket, request: frame.Frame{Route: f.Route, ID: f.ID}}
	if req.Device != nil {
		a.Device = identity.Device{ID: req.Device.ID, Flag: req.Device.Flag}
		if _, err := a.Device.Normalize(); err != nil {
			return api.Malformed("device.", err)
		}
	}
	h := s.host
	left := h.cfg.AuthenticationTimeout - (h.now() - s.connected)
	ctx, cancel := context.WithTimeout(h.ctx, min(left, h.cfg.RequestTimeout))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != connected { // closed since: nothing is answered any more
		cancel()
		return nil
	}
	a.cancel = cancel
	s.state, s.attempt = authenticating, a
	h.tasks.Go(func() {
		defer cancel()
		if err := h.deps.Activator.Activate(ctx, a); err != nil {
			s.refuse(a, fault.From(err))
		}
	})
	return nil
}

// refuse answers a failed attempt and leaves the connection open for another, within bounds.
func (s *Session) refuse(a *Attempt, e *fault.Error) {
	s.mu.Lock()
	if s.state != authenticating {
		s.mu.Unlock()
		return
	}
	waits := s.dropLocked()
	s.state, s.attempt = connected, nil
	s.entry.Store(nil)
	s.tries++
	tries := s.tries
	s.mu.Unlock()

	giveUp(waits)
	s.host.stats.refused.Add(1)
	msg := s.conn.Codec().AppendError(nil, a.request, e)
	switch {
	case e.Code == fault.Banned:
		s.finish(fault.CloseBanned, msg)
	case e.Code == fault.SessionRevoked:
		s.finish(fault.CloseRevoked, msg)
	case tries >= MaxTries:
		s.finish(fault.CloseUnauthenticated, msg)
	default:
		s.send(msg)
	}
}

// identityJSON is the identity as the client's subprotocol writes it: numbers on ELR2.
func identityJSON(c frame.Codec, id identity.Identity) (json.RawMessage, error) {
	if c != frame.ELR2 {
		return json.Marshal(id)
	}
	for _, f := range []struct {
		value string
		bits  int
	}{{id.AccountID, 63}, {id.UserID, 63}, {id.RegionID, 32}, {id.RealmID, 32}} {
		n, err := strconv.ParseUint(f.value, 10, f.bits)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != f.value {
			return nil, fault.New(fault.InvalidRequest, "this subprotocol needs a numeric identity")
		}
	}
	return json.Marshal(struct {
		AccountID  json.Number `json:"account_id"`
		UserID     json.Number `json:"user_id"`
		RegionID   json.Number `json:"region_id"`
		RealmID    json.Number `json:"realm_id"`
		Generation int64       `json:"generation"`
	}{json.Number(id.AccountID), json.Number(id.UserID), json.Number(id.RegionID), json.Number(id.RealmID), id.Generation})
}
