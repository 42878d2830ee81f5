package registry

import (
	"sync/atomic"
	"time"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
)

// State is where an entry is in its life.
type State uint8

// The states, in the order in which an entry goes through them.
const (
	Unknown State = iota // not in a registry yet
	Pending
	Committing
	Active
	Gone
)

// Entry is one session. The exported fields are set before Begin and never change; H is the
// session's write and close handle.
type Entry[H any] struct {
	ID          identity.SessionID
	UID         identity.UID
	Device      identity.Device
	Listener    string
	ConnectedAt time.Time
	Handle      H

	lastActive atomic.Int64 // Unix milliseconds
	dirty      atomic.Bool  // is in its shard's dirty list

	// Guarded by the mutex of the entry's shard.
	registered uint64 // sequence of the register that was committed
	seq        uint64 // highest sequence that was handed out
	sibling    *Entry[H]
	state      State
}

// Slot is the hash slot of the session's user.
func (e *Entry[H]) Slot() slot.Hash { return slot.Hash(e.ID.HashSlot()) }

// LastActive is when the client was last heard.
func (e *Entry[H]) LastActive() time.Time { return time.UnixMilli(e.lastActive.Load()) }

// Record is an entry with a sequence number that was made for one message about it.
type Record[H any] struct {
	*Entry[H]
	Seq        uint64
	LastActive int64 // Unix milliseconds
}

// Tombstone names what an owner takes back: the session's routes at or below Seq (I4).
type Tombstone struct {
	UID     identity.UID
	Session identity.SessionID
	Seq     uint64
	// State is what the entry was. The route of one that was still Pending was never visible.
	State State
}

// Slot is the hash slot of the session's user.
func (t Tombstone) Slot() slot.Hash { return slot.Hash(t.Session.HashSlot()) }
