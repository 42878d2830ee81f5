package registry

import (
	"slices"

	"github.com/switchyard-io/switchyard/shared/slot"
)

// dirtyLocked puts an entry on the dirty list, once, and only while it is in the registry: a
// list cannot outgrow its shard (I12).
func (s *shard[H]) dirtyLocked(e *Entry[H]) {
	if e.state == Unknown || e.state == Gone || e.dirty.Swap(true) {
		return
	}
	s.dirty = append(s.dirty, e)
}

func (s *shard[H]) undirtyLocked(e *Entry[H]) {
	if i := slices.Index(s.dirty, e); i >= 0 {
		last := len(s.dirty) - 1
		s.dirty[i] = s.dirty[last]
		s.dirty[last] = nil
		s.dirty = s.dirty[:last]
	}
	e.dirty.Store(false)
}

// Drain takes up to limit dirty active sessions, each with a fresh sequence, and appends them to
// dst; those of one hash slot are next to each other. Successive calls go round all slots.
// Sessions that are not active yet stay dirty.
func (r *Registry[H]) Drain(limit int, dst []Record[H]) []Record[H] {
	start := r.cursor.Load()
	for i := range uint32(slot.Count) {
		if limit <= 0 {
			break
		}
		h := slot.Hash((start + i) % slot.Count)
		n := len(dst)
		dst = r.shard(h).drain(limit, dst)
		limit -= len(dst) - n
		if limit > 0 {
			r.cursor.Store(uint32(h) + 1)
		} else {
			r.cursor.Store(uint32(h)) // the rest of this slot comes first next time
		}
	}
	return dst
}

func (s *shard[H]) drain(limit int, dst []Record[H]) []Record[H] {
	s.mu.Lock()
	defer s.mu.Unlock()
	keep := s.dirty[:0]
	for _, e := range s.dirty {
		if limit <= 0 || e.state != Active {
			keep = append(keep, e)
			continue
		}
		limit--
		e.dirty.Store(false) // before lastActive is read: activity from here on marks it again
		dst = append(dst, e.stampLocked())
	}
	clear(s.dirty[len(keep):])
	s.dirty = keep
	if len(keep) == 0 && cap(keep) > 64 {
		s.dirty = nil // a burst does not pin its memory
	}
	return dst
}

// Requeue marks a drained session dirty again after its touch failed. It does nothing when the
// session is gone.
func (r *Registry[H]) Requeue(e *Entry[H]) {
	s := r.shard(e.Slot())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirtyLocked(e)
}
