package owner

import (
	"time"

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

// Session is a live session of this gateway, as the owner endpoints use it. It is safe for
// concurrent use, and none of its methods block on the client.
type Session interface {
	ID() identity.SessionID
	UID() identity.UID
	// Push numbers and queues one push. A repeated message id is not written again and is
	// Queued. When m.Ack is set and the client can acknowledge, the answer is Waiting and acked is
	// called once on the client's acknowledgement, from any goroutine, or never; it is nil otherwise.
	Push(m *Message, acked func()) Status
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

// Config bounds the owner endpoints. A zero value takes the default.
type Config struct {
	// Gateway and Boot name this life of this gateway. Required.
	Gateway, Boot string
	// PendingMessages and PendingBytes bound what waits for the push and for the action handler;
	// what is over is dropped, counted, and unanswered. Defaults 65536, 64 MiB.
	PendingMessages, PendingBytes int
	// GroupQueue is the most group pushes and syncs that wait. Default 65536.
	GroupQueue int
	// MaxItems, MaxAddresses bound one batch: its items and all of their addresses. A larger
	// batch is ignored and counted. Defaults 4096, 65536.
	MaxItems, MaxAddresses int
	// MaxAckWaits is the most acknowledgements that are waited for at once. Over it a push is
	// reported as not acknowledged in time, at once. Default 262144.
	MaxAckWaits int
	// MaxAckWait is the longest that one acknowledgement is waited for. Default 60 s.
	MaxAckWait time.Duration
	// MaxGroups and MaxGroupsPerSession bound the groups with members here and the groups of one
	// session. Defaults 65536, 64.
	MaxGroups, MaxGroupsPerSession int
}
