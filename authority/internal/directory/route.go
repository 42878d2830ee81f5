package directory

import (
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
)

// Owner is one life of one gateway process.
type Owner struct {
	Gateway string
	Boot    string
}

// Route says where a session was last known to be. Whether it still is there is decided by its
// owner. Its identity is (UID, Gateway, Boot, Session).
type Route struct {
	UID      identity.UID
	Gateway  string
	Boot     string
	Session  identity.SessionID
	Device   identity.Device
	Listener string
	// OwnerSeq grows by one with every register, touch epoch and unregister of the session.
	OwnerSeq uint64
	// ConnectedAt and LastActive are unix milliseconds by the owner's clock.
	ConnectedAt int64
	LastActive  int64
}

// Owner returns the gateway life that holds the session.
func (r Route) Owner() Owner { return Owner{r.Gateway, r.Boot} }

// SessionSeq is one session of a gateway life at one of its sequence numbers.
type SessionSeq struct {
	Session    identity.SessionID
	UID        identity.UID // needed by Unregister only
	OwnerSeq   uint64
	LastActive int64 // unix milliseconds; used by Touch only
}

// Registration is the outcome of Register.
type Registration struct {
	// Candidate names the pending session in this slot and term.
	Candidate uint64
	// Conflicts are the active routes that must be gone before Commit.
	Conflicts []Route
}

// Presence is what is known of a user or a session.
type Presence uint8

// The presences.
const (
	PresenceOffline Presence = iota
	PresenceOnline
	// PresenceUnknown: no route, but owners that might have one have not reported yet (I7).
	PresenceUnknown
)

func (p Presence) String() string {
	return [...]string{"offline", "online", "unknown"}[p]
}

// Entry is the answer for one user or session: its routes are Found.Routes[From:To].
type Entry struct {
	Presence Presence
	From, To int
}

// Found is the caller's buffer for lookups. Lookups append, so one Found can collect many slots;
// Entries come in the order of the questions. A reused Found costs no allocation.
type Found struct {
	Entries []Entry
	Routes  []Route
}

// Reset empties the buffer and keeps its memory.
func (f *Found) Reset() {
	clear(f.Routes)
	f.Entries, f.Routes = f.Entries[:0], f.Routes[:0]
}

// Of returns the routes of the i-th entry. They are valid until the next Reset.
func (f *Found) Of(i int) []Route {
	e := f.Entries[i]
	return f.Routes[e.From:e.To:e.To]
}

// Transition is a user's change between no session and some.
type Transition struct {
	UID    identity.UID
	Online bool
	Hash   slot.Hash
	Term   uint64
	// N grows with every transition of the hash slot, over terms too: the term is its upper
	// part, from bit 32 on. It stays exact in JSON numbers up to term 2^21.
	N uint64
	// At is unix milliseconds.
	At int64
}

// Effects collects what the outside has to do. Calls append; the caller empties it.
type Effects struct {
	// Transitions are user events to publish.
	Transitions []Transition
	// Evicted are routes that lost to a restored one: their owners must be told to close them.
	Evicted []Route
	// Rebuilt are hash slots whose rebuild has just ended.
	Rebuilt []slot.Hash
}

// Reset empties the effects and keeps their memory.
func (e *Effects) Reset() {
	clear(e.Transitions)
	clear(e.Evicted)
	e.Transitions, e.Evicted, e.Rebuilt = e.Transitions[:0], e.Evicted[:0], e.Rebuilt[:0]
}
