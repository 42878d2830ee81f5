package directory

import (
	"math"
	"time"
)

func (t instant) second() uint32 { return uint32(t.ms / 1000) }

// noteDue lowers nextDue to the slot's first deadline. Called with the slot's mutex held, after
// a change that may have added a deadline.
func (d *Directory) noteDue(s *slotDir) {
	due := s.nextDue()
	for {
		cur := d.nextDue.Load()
		if due >= cur || d.nextDue.CompareAndSwap(cur, due) {
			return
		}
	}
}

// Expire removes what is due at now: routes without a sign of life for the TTL, candidates,
// tombstones and fences past theirs. Its cost is O(due): a pass with nothing due is one load. At
// most Config.ExpireBatch routes go in one call. It returns the number of routes removed.
func (d *Directory) Expire(now time.Time, fx *Effects) int {
	at := d.instant(now)
	if at.ms < d.nextDue.Load() {
		return 0
	}
	d.expireMu.Lock()
	defer d.expireMu.Unlock()
	// Changes that happen from here on lower it again; each slot is read after that.
	d.nextDue.Store(math.MaxInt64)
	n := 0
	for i := range d.cells {
		c := &d.cells[i]
		c.mu.Lock()
		if s := c.dir; s != nil {
			if s.nextDue() <= at.ms {
				n += s.expire(at, d.cfg.ExpireBatch-n, fx)
			}
			d.noteDue(s)
		}
		c.mu.Unlock()
	}
	return n
}
