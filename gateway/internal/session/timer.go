package session

import (
	"math/rand/v2"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/shared/fault"
)

// tick is the session's one timer.
func (s *Session) tick() {
	if code := s.tickCode(); code != 0 {
		s.finish(code)
	}
}

// tickCode does what is due, and returns the code to close with when the session's time is over.
func (s *Session) tickCode() fault.CloseCode {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state {
	case closed:
		return 0
	case connected, authenticating:
		return fault.CloseAuthenticationTimeout
	}
	now := s.host.now()
	if now >= s.idleAt() {
		return fault.CloseIdleTimeout
	}
	due := now >= s.heartbeatAt
	if due {
		s.heartbeats++
		s.send(s.conn.Codec().Append(nil, frame.Frame{
			Kind: frame.KindRequest, Route: frame.RouteHeartbeat, ID: s.heartbeats,
		}))
	}
	s.scheduleLocked(now, due)
	return 0
}

func (s *Session) idleAt() time.Duration {
	return time.Duration(s.inbound.Load()) + s.host.cfg.IdleTimeout
}

// scheduleLocked sets the timer for what is next: the heartbeat, or the idle timeout as it stands
// now; activity moves that without touching the timer. A new heartbeat is due after 80-100 % of
// the interval, so that sessions that began together do not beat together.
func (s *Session) scheduleLocked(now time.Duration, newHeartbeat bool) {
	if newHeartbeat {
		interval := s.host.cfg.HeartbeatInterval
		s.heartbeatAt = now + interval - rand.N(interval/5+1)
	}
	s.timer.Reset(min(s.heartbeatAt, s.idleAt()) - now)
}
