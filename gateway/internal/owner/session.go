package owner

import (
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
)

// Status is what came of one push at one session.
type Status uint8

// The statuses.
const (
	// Queued: numbered and handed to the session's write queue.
	Queued Status = iota + 1
	// Waiting is Queued, and the session will report an acknowledgement.
	Waiting
	// Parked: kept for a session that waits to be resumed.
	Parked
	// Overflow: the write queue is full; the session is being cut.
	Overflow
	// Stale: the session has ended.
	Stale
)

// Acked hears what became of a push that waits: true on the client's acknowledgement, false when the
// session has ended without one.
type Acked func(ok bool)

// Session is a live session of this gateway, as the owner endpoints use it. It is safe for
// concurrent use, and none of its methods block on the client.
type Session interface {
	ID() identity.SessionID
	UID() identity.UID
	// Push numbers and queues one push. A repeated message id is not written again and is
	// Queued. When m.Ack is set and the client can acknowledge, the answer is Waiting and acked is
	// called from any goroutine: once, or never where nobody waits any more or too many do. It is nil
	// otherwise.
	Push(m *Message, acked Acked) Status
	// End closes the session; on return it can receive no push any more. It may be called
	// repeatedly.
	End(e Ending)
	// Ended reports whether End was called or the session closed in another way.
	Ended() bool
}

// Action is the session control action that a client is told.
type Action string

// The actions that arrive from outside.
const (
	Kick           Action = "kick"
	DuplicateLogin Action = "duplicate_login"
	ForceLogout    Action = "force_logout"
)

// Ending says how and why a session is closed.
type Ending struct {
	Code   fault.CloseCode
	Action Action
	Reason string
}

// Sessions finds live sessions of this gateway.
type Sessions interface {
	// Exact returns the active session of that user with that id, if seq is one under which it was
	// announced: its register's sequence or a later one, up to the current (I2).
	Exact(uid identity.UID, id identity.SessionID, seq uint64) (Session, bool)
}
