package session

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/switchyard-io/switchyard/gateway/internal/owner"
	"github.com/switchyard-io/switchyard/gateway/internal/registry"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
)

// ErrClosed says that the session has ended.
var ErrClosed = errors.New("session closed")

type state uint8

const (
	connected state = iota
	authenticating
	active
	closed
)

// Session is one client connection and, once it is active, one user's session.
type Session struct {
	host      *Host
	conn      Conn
	connected time.Duration
	inbound   atomic.Int64 // host time of the last inbound frame
	entry     atomic.Pointer[Entry]

	// Of the transport's reading goroutine.
	violations int           // in a row
	limiter    *rate.Limiter // made with the first request
	refusals   int           // by the limiter, since refusedAt was more than a second ago
	refusedAt  time.Duration

	mu          sync.Mutex
	state       state
	tries       uint8
	inFlight    int
	pushSeq     uint32 // of the last push
	heartbeats  uint64 // sent, and the id of the last one
	heartbeatAt time.Duration
	timer       *time.Timer
	attempt     *Attempt  // under way
	grant       *Grant    // once active
	renewal     *Renewal  // the latest whose outcome is not known
	delivery    *delivery // once needed
}

var _ owner.Session = (*Session)(nil)

// ID is the session's id; zero before it is known.
func (s *Session) ID() identity.SessionID {
	if e := s.entry.Load(); e != nil {
		return e.ID
	}
	return identity.SessionID{}
}

// UID is the user; empty before it is known.
func (s *Session) UID() identity.UID {
	if e := s.entry.Load(); e != nil {
		return e.UID
	}
	return ""
}

// Grant is what the session was announced with; nil unless it is active.
func (s *Session) Grant() *Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != active {
		return nil
	}
	return s.grant
}

// Ended reports whether the session is over.
func (s *Session) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == closed
}

// Active notes that the client was heard.
func (s *Session) Active() {
	s.inbound.Store(int64(s.host.now()))
	if e := s.entry.Load(); e != nil {
		s.host.deps.Registry.Touch(e, time.Now())
	}
}

// End closes the session, telling the client why where there is an action. When it returns the
// session can receive nothing any more (I1), and its route is on its way out.
func (s *Session) End(e owner.Ending) {
	var last [][]byte
	if e.Action != "" {
		last = append(last, appendControl(s.conn.Codec(), e))
	}
	s.finishFor(e.Code, e.Reason, last...)
}

// Closed is the transport's last word on a connection that it ended itself, with that code.
func (s *Session) Closed(code fault.CloseCode) { s.finish(code) }

// Left is the transport's last word on a connection that the client ended or that broke: the
// client's close code, or one of StatusNone and StatusBroken, and words for observers.
func (s *Session) Left(code fault.CloseCode, reason string) { s.over(0, code, reason) }

// What RFC 6455 has for ends without a code.
const (
	StatusNone   fault.CloseCode = 1005 // a close frame without one
	StatusBroken fault.CloseCode = 1006 // no close frame
)

// finish ends the session for the reason that the code names.
func (s *Session) finish(code fault.CloseCode, last ...[]byte) { s.finishFor(code, "", last...) }

// finishFor ends the session for the given reason, or that of the code.
func (s *Session) finishFor(code fault.CloseCode, reason string, last ...[]byte) {
	if reason == "" && code != 0 {
		reason = code.String()
	}
	s.over(code, code, reason, last...)
}

// over ends the session once; a call that comes second waits for nothing, but the connection
// accepts nothing any more when it returns. code is this side's own, told is what observers hear.
func (s *Session) over(code, told fault.CloseCode, reason string, last ...[]byte) {
	s.mu.Lock()
	was, attempt, renewal := s.state, s.attempt, s.renewal
	s.state = closed
	waits := s.dropLocked()
	s.attempt, s.renewal = nil, nil
	s.timer.Stop()
	s.mu.Unlock()
	if attempt != nil && code != 0 && code != fault.CloseProtocolViolation {
		last = append([][]byte{s.conn.Codec().AppendError(nil, attempt.request, givenUp(code))}, last...)
	}

	s.conn.Close(code, last...)
	giveUp(waits)
	if was == closed {
		return
	}
	if attempt != nil {
		attempt.cancel()
	}
	if renewal != nil {
		s.host.deps.Activator.GiveUp(*renewal)
	}
	s.host.stats.closed(code)
	s.host.ended(s, was, told, reason)
}

// givenUp answers an attempt that the close of its session cuts short: its ticket stays usable. A
// session that somebody else has ended must not be told to try again, or it would throw out the
// one that has replaced it.
func givenUp(code fault.CloseCode) *fault.Error {
	switch code {
	case fault.CloseAuthenticationTimeout:
		return fault.ErrTimeout
	case fault.CloseReplaced:
		return fault.New(fault.DuplicateSession, code.String())
	case fault.CloseForcedLogout:
		return fault.New(fault.Forbidden, code.String())
	case fault.CloseBanned:
		return fault.ErrBanned
	case fault.CloseRevoked:
		return fault.ErrSessionRevoked
	}
	return fault.New(fault.Unavailable, code.String())
}

// ended takes a closed session out of everything. Whoever takes the entry out of the registry
// unregisters it; an activation that is still under way finds it gone (I13).
func (h *Host) ended(s *Session, was state, code fault.CloseCode, reason string) {
	if e := s.entry.Load(); e != nil {
		if t, ok := h.deps.Registry.Remove(e); ok && t.State >= registry.Committing {
			h.deps.Routes.Unregister(t)
		}
	}
	if was == active {
		h.deps.Groups.LeaveAll(s)
		if h.deps.Observer != nil {
			h.deps.Observer.Closed(s, code, reason)
		}
	}
}

// Device is the session's device; the zero Device before it is known.
func (s *Session) Device() identity.Device {
	if e := s.entry.Load(); e != nil {
		return e.Device
	}
	return identity.Device{}
}
