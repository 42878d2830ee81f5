package leadership

import "github.com/switchyard-io/switchyard/shared/slot"

// Snapshot is one immutable state of a Table.
type Snapshot struct {
	layout  slot.Layout
	entries []Entry
}

// Layout is the cluster's.
func (s *Snapshot) Layout() slot.Layout { return s.layout }

// Entry is the leadership of a slot; zero for an id outside the layout.
func (s *Snapshot) Entry(id slot.ID) Entry {
	if int(id) >= len(s.entries) {
		return Entry{}
	}
	return s.entries[id]
}

// Target is the fence for calls about a hash slot; false while nobody leads it.
func (s *Snapshot) Target(h slot.Hash) (slot.Target, bool) {
	id := s.layout.ID(h)
	e := s.entries[id]
	return e.Target(h, id), e.Led()
}
