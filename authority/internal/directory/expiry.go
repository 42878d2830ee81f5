package directory

import (
	"math"
	"time"

	"github.com/switchyard-io/switchyard/shared/slot"
)

// never is the deadline of what has none.
const never = math.MaxInt64

// second is the activity second of a moment. A second index of 32 bits lasts 136 years.
func (t instant) second() uint32 { return uint32(t.ms / 1000) }

// activity lists the routes of a slot by the second of their last sign of life. Signs of life
// come in the order of time, so the routes of one second stand together and the newest second is
// always at the end: taking a sign of life is O(1), and the due ones are the first ones.
type activity struct {
	oldest ref
	newest ref
	// floor counts as a sign of life of every route (Resume).
	floor uint32
}

// append adds a route that is not in the list. A second that goes back counts as the newest so
// far: callers read the clock before they get the lock.
func (a *activity) append(s *slab, r ref, rec *record, second uint32) {
	rec.second, rec.older, rec.newer = second, a.newest, 0
	if a.newest == 0 {
		a.oldest = r
	} else {
		last := s.at(a.newest)
		rec.second = max(second, last.second)
		last.newer = r
	}
	a.newest = r
}

func (a *activity) unlink(s *slab, rec *record) {
	if rec.older == 0 {
		a.oldest = rec.newer
	} else {
		s.at(rec.older).newer = rec.newer
	}
	if rec.newer == 0 {
		a.newest = rec.older
	} else {
		s.at(rec.newer).older = rec.older
	}
}

// touch moves a route to the newest second; within one second there is nothing to move.
func (a *activity) touch(s *slab, r ref, rec *record, second uint32) {
	if second <= rec.second {
		return
	}
	a.unlink(s, rec)
	a.append(s, r, rec, second)
}

// due returns when the oldest route expires: a TTL after the end of its second, so never early.
func (a *activity) due(s *slab, ttlMS int64) int64 {
	if a.oldest == 0 {
		return never
	}
	return (int64(max(s.at(a.oldest).second, a.floor))+1)*1000 + ttlMS
}

// nextDue returns the slot's first deadline, or an earlier moment.
func (s *slotDir) nextDue() int64 {
	due := s.routes.activity.due(&s.routes.slab, s.cfg.TTL.Milliseconds())
	if _, at, ok := s.candidates.pending.oldest(); ok {
		due = min(due, at+s.cfg.CandidateTimeout.Milliseconds())
	}
	if _, at, ok := s.tombstones.oldest(); ok {
		due = min(due, at+s.cfg.TombstoneTTL.Milliseconds())
	}
	if _, at, ok := s.past.lives.oldest(); ok {
		due = min(due, at+s.cfg.ReplacedTTL.Milliseconds())
	}
	return due
}

// expire removes what is due, at most limit routes, and returns the number of routes.
func (s *slotDir) expire(now instant, limit int, fx *Effects) (n int) {
	s.lapse(now)
	s.tombstones.dropUntil(now.ms - s.cfg.TombstoneTTL.Milliseconds())
	s.past.forgetUntil(now.ms - s.cfg.ReplacedTTL.Milliseconds())
	ttl := s.cfg.TTL.Milliseconds()
	for n < limit && s.routes.activity.due(&s.routes.slab, ttl) <= now.ms {
		r := s.routes.activity.oldest
		s.lose(r, s.routes.slab.at(r), now, fx)
		n++
	}
	s.counters.Expired += uint64(n)
	return n
}

// noteDue lowers nextDue to the slot's first deadline. Called with the slot's mutex held, after
// a change that may have added a deadline.
func (d *Directory) noteDue(s *slotDir) { d.lowerDue(s.nextDue()) }

func (d *Directory) lowerDue(due int64) {
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
//
// A hash slot of which may says false is left as it is, and is due again at the next call: a node
// that may not serve a slot does not hear its touches either (I7). nil is all.
func (d *Directory) Expire(now time.Time, may func(slot.Hash) bool, fx *Effects) int {
	at := d.instant(now)
	if at.ms < d.nextDue.Load() {
		return 0
	}
	d.expireMu.Lock()
	defer d.expireMu.Unlock()
	// Changes that happen from here on lower it again; each slot is read after that.
	d.nextDue.Store(never)
	fence := d.cfg.TombstoneTTL.Milliseconds()
	if next, some := d.gone.liftUntil(at.ms - fence); some {
		d.lowerDue(next + fence)
	}
	n := 0
	for i := range d.cells {
		c := &d.cells[i]
		c.mu.Lock()
		if s := c.dir; s != nil {
			if s.nextDue() <= at.ms && (may == nil || may(slot.Hash(i))) {
				n += s.expire(at, d.cfg.ExpireBatch-n, fx)
			}
			d.noteDue(s)
		}
		c.mu.Unlock()
	}
	return n
}
