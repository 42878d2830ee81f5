package gateway

import (
	"sync/atomic"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/session"
	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/events"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
)

// eventFlush bounds what the end of a gateway waits for its last events.
const eventFlush = 2 * time.Second

// sessionEvents tells the event stream what becomes of the sessions. It never holds one up.
type sessionEvents struct {
	*events.Publisher
	node lifecycle.Node
	n    atomic.Uint64 // of the last event; grows for as long as this life
}

var _ session.Observer = (*sessionEvents)(nil)

// Authenticated tells that a session began.
func (e *sessionEvents) Authenticated(s *session.Session) { e.publish(s, api.WhatAuthenticated, 0, "") }

// Closed tells that an authenticated session ended.
func (e *sessionEvents) Closed(s *session.Session, code fault.CloseCode, reason string) {
	e.publish(s, api.WhatClosed, code, reason)
}

func (e *sessionEvents) publish(s *session.Session, what string, code fault.CloseCode, reason string) {
	e.Publish(&api.SessionEvent{
		Type: api.EventType(api.KindSession, what), UID: s.UID(), At: api.At(time.Now()), SessionID: s.ID(),
		GatewayID: e.node.ID, BootID: e.node.Boot, N: e.n.Add(1), Code: code, Reason: reason,
	})
}
