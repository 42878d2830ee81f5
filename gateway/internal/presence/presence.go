package presence

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/slot"
)

// Caller sends one request and hands each reply to cb until cb reports that it is done, or an
// error once. It publishes before it returns, so the order of calls is the order on the wire.
// A natsconn.Caller is one.
type Caller interface {
	Call(subject string, data []byte, hdr nats.Header, deadline time.Time, cb natsconn.Callback) error
}

// Table tells who leads a hash slot, as far as this process knows; false: nobody is known.
type Table interface {
	Target(h slot.Hash) (slot.Target, bool)
}

// TableFunc is a Table of a function, such as one that reads the latest snapshot.
type TableFunc func(h slot.Hash) (slot.Target, bool)

// Target calls f.
func (f TableFunc) Target(h slot.Hash) (slot.Target, bool) { return f(h) }

// Record is one session of this gateway as its registry holds it.
type Record struct {
	UID         identity.UID
	Session     identity.SessionID
	Device      identity.Device
	Listener    string
	OwnerSeq    uint64
	ConnectedAt time.Time
	LastActive  time.Time
}

// Sessions is what presence reads of the registry. Its methods are called from the workers'
// goroutines and must not block.
type Sessions interface {
	// InSlot appends the active sessions of a hash slot to dst.
	InSlot(dst []Record, h slot.Hash) []Record
	// Dirty appends at most limit active sessions that had activity since they were last
	// drained, and marks them clean. OwnerSeq is the sequence of this touch.
	Dirty(dst []Record, limit int) []Record
	// Requeue marks a session dirty again if it is still active.
	Requeue(id identity.SessionID)
	// Active returns a session if it is still active.
	Active(id identity.SessionID) (Record, bool)
	// Replaced ends a session that lost to a newer one elsewhere: duplicate_login, 4502.
	Replaced(id identity.SessionID)
}

// Conflict is an active route that must be gone before a candidate can be committed.
type Conflict struct {
	UID      identity.UID
	Gateway  string
	Boot     string
	Session  identity.SessionID
	OwnerSeq uint64
}

// Registration is a pending candidate at one leader in one term.
type Registration struct {
	Target    slot.Target
	Candidate uint64
	Session   identity.SessionID
	Conflicts []Conflict
}

// Outcome says what became of a session that Evict asked an owner to close.
type Outcome uint8

// The outcomes. All but Silent count as confirmed (I1).
const (
	// Silent: the owner did not answer in time. The caller may go on after its bound: the higher
	// owner wins, and the loser is told when it reports its session again.
	Silent Outcome = iota
	// Closed: the session can receive no push any more.
	Closed
	// Gone: the owner does not hold the session.
	Gone
	// Dead: nobody listens for that life of the gateway.
	Dead
)

// Confirmed reports whether the session can receive no push any more.
func (o Outcome) Confirmed() bool { return o != Silent }

// Errors of the leader calls, beside those of package fault.
var (
	// ErrExpired: the candidate is not there any more, or its leader is not; register again.
	ErrExpired = errors.New("candidate expired")
	// ErrFenced: the session was unregistered at this sequence or a higher one.
	ErrFenced = errors.New("session fenced")
)
