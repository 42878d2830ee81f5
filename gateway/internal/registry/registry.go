package registry

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
)

// Failures of Begin.
var (
	ErrFull   = errors.New("registry: full")
	ErrExists = errors.New("registry: session exists")
)

// Config bounds a registry (I12).
type Config struct {
	MaxSessions int // pending, committing and active ones together, at least 1
}

// Registry holds a gateway's sessions.
type Registry[H any] struct {
	max    int64
	total  atomic.Int64
	active atomic.Int64
	cursor atomic.Uint32 // shard at which the next Drain begins
	shards [slot.Count]shard[H]
}

type shard[H any] struct {
	mu    sync.Mutex
	byID  map[identity.SessionID]*Entry[H]
	byUID map[identity.UID]*Entry[H] // first of a list linked by sibling
	// dirty holds each entry once: at most the number of entries that were ever in the shard
	// since the last Drain, and Remove takes them out again.
	dirty []*Entry[H]
}

// New makes an empty registry.
func New[H any](cfg Config) (*Registry[H], error) {
	if cfg.MaxSessions < 1 {
		return nil, fmt.Errorf("registry: MaxSessions %d is below 1", cfg.MaxSessions)
	}
	return &Registry[H]{max: int64(cfg.MaxSessions)}, nil
}

func (r *Registry[H]) shard(h slot.Hash) *shard[H] { return &r.shards[h] }

// Begin adds a new entry as pending. It fails with ErrFull or ErrExists.
func (r *Registry[H]) Begin(e *Entry[H]) error {
	if r.total.Add(1) > r.max {
		r.total.Add(-1)
		return ErrFull
	}
	s := r.shard(e.Slot())
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.state != Unknown || s.byID[e.ID] != nil {
		r.total.Add(-1)
		return ErrExists
	}
	if s.byID == nil {
		s.byID = make(map[identity.SessionID]*Entry[H])
		s.byUID = make(map[identity.UID]*Entry[H])
	}
	e.state = Pending
	e.lastActive.Store(e.ConnectedAt.UnixMilli())
	s.byID[e.ID] = e
	e.sibling = s.byUID[e.UID]
	s.byUID[e.UID] = e
	return nil
}

// Stamp hands out the next sequence for a register of the entry. It fails once the entry is gone.
func (r *Registry[H]) Stamp(e *Entry[H]) (Record[H], bool) {
	s := r.shard(e.Slot())
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.state != Pending && e.state != Committing && e.state != Active {
		return Record[H]{}, false
	}
	return e.stampLocked(), true
}

func (e *Entry[H]) stampLocked() Record[H] {
	e.seq++
	return Record[H]{Entry: e, Seq: e.seq, LastActive: e.lastActive.Load()}
}

// MarkCommitting says that the route registered at seq may become visible from now on, so that
// what is addressed to it is exact. It fails when the entry is gone.
func (r *Registry[H]) MarkCommitting(e *Entry[H], seq uint64) bool {
	s := r.shard(e.Slot())
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.state {
	case Pending:
		e.state, e.registered = Committing, seq
		return true
	case Committing: // registered again, after the leader of the first try was lost
		return true
	}
	return false
}

// MarkActive makes a committing entry active. It fails when the session has closed meanwhile:
// whoever removed it has the tombstone, and nothing may bring it back (I4, I13).
func (r *Registry[H]) MarkActive(e *Entry[H]) bool {
	s := r.shard(e.Slot())
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.state != Committing {
		return false
	}
	e.state = Active
	r.active.Add(1)
	return true
}

// Remove takes exactly this entry out, whatever its state, and returns its tombstone; false when
// it was not in. Entries of other sessions of the same user stay (I13).
func (r *Registry[H]) Remove(e *Entry[H]) (Tombstone, bool) {
	s := r.shard(e.Slot())
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.state == Unknown || e.state == Gone {
		return Tombstone{}, false
	}
	e.seq++
	t := Tombstone{UID: e.UID, Session: e.ID, Seq: e.seq, State: e.state}
	if e.state == Active {
		r.active.Add(-1)
	}
	r.total.Add(-1)
	e.state = Gone
	delete(s.byID, e.ID)
	s.unlinkLocked(e)
	if e.dirty.Load() {
		s.undirtyLocked(e)
	}
	return t, true
}

func (s *shard[H]) unlinkLocked(e *Entry[H]) {
	first := s.byUID[e.UID]
	if first == e {
		if e.sibling == nil {
			delete(s.byUID, e.UID)
		} else {
			s.byUID[e.UID] = e.sibling
		}
	} else {
		for p := first; p != nil; p = p.sibling {
			if p.sibling == e {
				p.sibling = e.sibling
				break
			}
		}
	}
	e.sibling = nil
}

// Lookup finds a committing or active session by its id.
func (r *Registry[H]) Lookup(id identity.SessionID) (*Entry[H], bool) {
	s := r.shard(slot.Hash(id.HashSlot()))
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byID[id]
	if e == nil || e.state < Committing {
		return nil, false
	}
	return e, true
}

// Exact finds the session that a route names: same user, same id, and a sequence between that of
// its register and the highest handed out. Anything else is stale (I2).
func (r *Registry[H]) Exact(uid identity.UID, id identity.SessionID, seq uint64) (*Entry[H], bool) {
	s := r.shard(slot.Hash(id.HashSlot()))
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byID[id]
	if e == nil || e.state < Committing || e.UID != uid || seq < e.registered || seq > e.seq {
		return nil, false
	}
	return e, true
}

// User appends the user's committing and active sessions to dst, in no order.
func (r *Registry[H]) User(uid identity.UID, dst []*Entry[H]) []*Entry[H] {
	s := r.shard(slot.OfUID(uid))
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.byUID[uid]; e != nil; e = e.sibling {
		if e.state >= Committing {
			dst = append(dst, e)
		}
	}
	return dst
}

// State tells where the entry is in its life.
func (r *Registry[H]) State(e *Entry[H]) State {
	s := r.shard(e.Slot())
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.state
}

// Restorable appends all active sessions of a hash slot to dst, each with a fresh sequence to
// register it again with.
func (r *Registry[H]) Restorable(h slot.Hash, dst []Record[H]) []Record[H] {
	s := r.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.byID {
		if e.state == Active {
			dst = append(dst, e.stampLocked())
		}
	}
	return dst
}

// All appends every entry, pending ones included, to dst.
func (r *Registry[H]) All(dst []*Entry[H]) []*Entry[H] {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for _, e := range s.byID {
			dst = append(dst, e)
		}
		s.mu.Unlock()
	}
	return dst
}

// Active is the number of active sessions.
func (r *Registry[H]) Active() int { return int(r.active.Load()) }

// Len is the number of sessions in any state.
func (r *Registry[H]) Len() int { return int(r.total.Load()) }

// Touch notes activity of the client and marks the session dirty: a flag, never a call. It takes
// the shard only when the session was clean.
func (r *Registry[H]) Touch(e *Entry[H], now time.Time) {
	e.lastActive.Store(now.UnixMilli())
	if e.dirty.Load() {
		return
	}
	s := r.shard(e.Slot())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirtyLocked(e)
}
