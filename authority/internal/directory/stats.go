package directory

import "github.com/switchyard-io/switchyard/shared/slot"

// SlotStats is the state of one hash slot.
type SlotStats struct {
	Open       bool
	Rebuilding bool
	Awaited    int // owners that have not reported yet
	Routes     int
	Users      int
	Owners     int
	Candidates int
	Tombstones int
	Departed   int // lives whose route went without their owner's doing
	Counters
}

// Counters only grow, from the slot's Open on.
type Counters struct {
	Expired          uint64 // routes removed for want of a sign of life
	Fenced           uint64 // registers, commits and restores refused by a tombstone or sequence
	TombstonesLost   uint64 // tombstones and departed lives, dropped for MaxTombstones before their time
	TransitionsLost  uint64 // offline events not sent: more than MaxTombstones during a rebuild
	CandidatesLapsed uint64
}

// SlotStats returns the state of one hash slot.
func (d *Directory) SlotStats(h slot.Hash) SlotStats {
	c := &d.cells[h]
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dir == nil {
		return SlotStats{}
	}
	return c.dir.stats()
}

// Stats returns the sums over all open hash slots, and how many are open and rebuilding. The
// slots are read one after the other.
func (d *Directory) Stats() (sum SlotStats, open, rebuilding int) {
	for h := range slot.Count {
		s := d.SlotStats(slot.Hash(h))
		if !s.Open {
			continue
		}
		open++
		if s.Rebuilding {
			rebuilding++
		}
		sum.Awaited += s.Awaited
		sum.Routes += s.Routes
		sum.Users += s.Users
		sum.Owners += s.Owners
		sum.Candidates += s.Candidates
		sum.Tombstones += s.Tombstones
		sum.Departed += s.Departed
		sum.Expired += s.Expired
		sum.Fenced += s.Fenced
		sum.TombstonesLost += s.TombstonesLost
		sum.TransitionsLost += s.TransitionsLost
		sum.CandidatesLapsed += s.CandidatesLapsed
	}
	sum.Open, sum.Rebuilding = open > 0, rebuilding > 0
	return sum, open, rebuilding
}
