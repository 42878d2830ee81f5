package delivery

import (
	"sync/atomic"

	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// Stats counts since the start; read it with Counts.
type Stats struct {
	batches, parcels, actions          atomic.Int64
	overflow, stale, noAnswer, written atomic.Int64
}

func (s *Stats) count(d wirepb.Delivery) {
	switch d {
	case wirepb.Delivery_DELIVERY_OVERFLOW:
		s.overflow.Add(1)
	case wirepb.Delivery_DELIVERY_STALE:
		s.stale.Add(1)
	case wirepb.Delivery_DELIVERY_NO_ANSWER:
		s.noAnswer.Add(1)
	default:
		s.written.Add(1)
	}
}

// Counts is one reading of Stats.
type Counts struct {
	Batches, Parcels, Actions          int64
	Overflow, Stale, NoAnswer, Written int64
	// Owners is the number of links.
	Owners int
}

// Counts reads the counters.
func (l *Links) Counts() Counts {
	l.mu.RLock()
	n := len(l.owners)
	l.mu.RUnlock()
	s := &l.stats
	return Counts{
		Batches: s.batches.Load(), Parcels: s.parcels.Load(), Actions: s.actions.Load(),
		Overflow: s.overflow.Load(), Stale: s.stale.Load(), NoAnswer: s.noAnswer.Load(), Written: s.written.Load(),
		Owners: n,
	}
}
