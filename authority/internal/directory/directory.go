package directory

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
)

// Directory holds the hash slots that a node leads.
type Directory struct {
	cfg   Config
	start time.Time // zero of the monotonic milliseconds inside

	// nextDue is never later than the first deadline of any slot, in monotonic milliseconds; it
	// lets a pass with nothing due end after one load.
	nextDue  atomic.Int64
	expireMu sync.Mutex // one pass at a time; taken before a cell's mutex
	gone     fences
	cells    [slot.Count]cell
}

// cell is one hash slot's place. The padding keeps two cores on neighbouring slots apart.
type cell struct {
	mu  sync.Mutex // only fences.mu is taken under it
	dir *slotDir   // nil: closed
	_   [48]byte
}

// instant is a moment in both forms that the core needs.
type instant struct {
	ms   int64 // monotonic, since Directory.start
	unix int64 // wall clock, milliseconds
}

// New makes a Directory with all slots closed. Times given later must not be before start, and
// should carry a monotonic reading as time.Now does. It fails if a Config field is out of range.
func New(cfg Config, start time.Time) (*Directory, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	d := &Directory{cfg: cfg, start: start}
	d.nextDue.Store(never)
	return d, nil
}

func (d *Directory) instant(now time.Time) instant {
	return instant{ms: max(0, now.Sub(d.start).Milliseconds()), unix: now.UnixMilli()}
}

// enter locks the target's cell and returns its slot if the fence matches (I3). The caller
// unlocks the cell in every case.
func (d *Directory) enter(t *slot.Target) (*cell, *slotDir, error) {
	c := &d.cells[t.Hash]
	c.mu.Lock()
	if c.dir == nil {
		return c, nil, ErrNotLeader
	}
	if !c.dir.fits(t) {
		return c, nil, &StaleTarget{Current: c.dir.target}
	}
	return c, c.dir, nil
}

// Open starts leadership of t.Hash at now. A new term or config epoch empties the slot and
// rebuilds it from the awaited owners; with none it serves at once. The caller knows them to be alive:
// a fence of OwnerGone on one of them is over, as by OwnerBack, so that one that was only silent is
// waited for and may report (I7). The same fence keeps all and only takes the revision (as Revise). An older one fails with *StaleTarget, more than MaxOwners
// awaited with ErrFull. No events come of it: an emptied slot says nothing about users (I7).
func (d *Directory) Open(t slot.Target, awaited []Owner, now time.Time) error {
	c := &d.cells[t.Hash]
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.dir; s != nil {
		switch {
		case s.fits(&t):
			s.revise(t.Revision)
			return nil
		case !t.Newer(s.target):
			return &StaleTarget{Current: s.target}
		}
	}
	if len(awaited) > d.cfg.MaxOwners {
		return ErrFull
	}
	for _, o := range awaited {
		d.gone.lift(intern(o))
	}
	c.dir = newSlotDir(&d.cfg, &d.gone, t, awaited, d.instant(now))
	return nil
}

// Close ends leadership of a hash slot and frees its memory. Closing a closed slot does nothing.
func (d *Directory) Close(h slot.Hash) {
	c := &d.cells[h]
	c.mu.Lock()
	c.dir = nil
	c.mu.Unlock()
}

// Revise takes a newer revision of the same leadership and keeps everything. An older revision is
// ignored.
func (d *Directory) Revise(t slot.Target) error {
	c, s, err := d.enter(&t)
	defer c.mu.Unlock()
	if err == nil {
		s.revise(t.Revision)
	}
	return err
}

// Resume gives every route of the slot a whole TTL from now on. The leader calls it when it
// serves again after a time in which touches could not reach it (lease uncertain, NATS away), so
// that nobody expires for its own deafness (I7).
func (d *Directory) Resume(t slot.Target, now time.Time) error {
	c, s, err := d.enter(&t)
	defer c.mu.Unlock()
	if err == nil {
		s.routes.activity.floor = d.instant(now).second()
	}
	return err
}

// Target returns the leadership of a hash slot, if it is open.
func (d *Directory) Target(h slot.Hash) (slot.Target, bool) {
	c := &d.cells[h]
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dir == nil {
		return slot.Target{}, false
	}
	return c.dir.target, true
}

// Register opens a pending candidate for a session and returns the active routes in its way
// under the policy. Nothing becomes visible and nobody is disturbed. A repeat for the same
// session returns the same candidate.
//
// Errors: *StaleTarget, ErrNotLeader, ErrInvalid, ErrFenced, ErrFull, ErrDuplicate,
// ErrUnavailable.
func (d *Directory) Register(t slot.Target, r Route, p Policy, now time.Time) (Registration, error) {
	c, s, err := d.enter(&t)
	defer c.mu.Unlock()
	if err != nil {
		return Registration{}, err
	}
	reg, err := s.register(&r, p, d.instant(now))
	d.noteDue(s)
	return reg, err
}

// Commit makes the candidate the visible route of its session, in place of the conflicting
// routes, all of which must be in confirmed (closed by their owner, or the owner is dead).
// Conflicts are computed anew; those not confirmed fail the commit with *Conflict, and the
// candidate stays for another try. A repeat after success succeeds.
//
// Errors: *StaleTarget, ErrNotLeader, *Conflict, ErrExpired, ErrFenced, ErrDuplicate, ErrFull.
func (d *Directory) Commit(t slot.Target, candidate uint64, session identity.SessionID, confirmed []identity.SessionID, now time.Time, fx *Effects) error {
	c, s, err := d.enter(&t)
	defer c.mu.Unlock()
	if err != nil {
		return err
	}
	err = s.commit(candidate, session, confirmed, d.instant(now), fx)
	d.noteDue(s)
	return err
}

// Abort forgets a candidate. One that is not there is no error.
func (d *Directory) Abort(t slot.Target, candidate uint64) error {
	c, s, err := d.enter(&t)
	defer c.mu.Unlock()
	if err == nil {
		s.candidates.remove(candidate)
	}
	return err
}

// Unregister removes sessions of one owner, each if its route is at or below the given sequence,
// and leaves tombstones, so that no register or touch at or below it brings the route back in
// any order of arrival (I4). A newer route of the session, or one of another owner, stays (I13).
//
// Errors: *StaleTarget, ErrNotLeader, ErrInvalid (a session of another hash slot).
func (d *Directory) Unregister(t slot.Target, o Owner, gone []SessionSeq, now time.Time, fx *Effects) error {
	c, s, err := d.enter(&t)
	defer c.mu.Unlock()
	if err != nil {
		return err
	}
	err = s.unregister(o, gone, d.instant(now), fx)
	d.noteDue(s)
	return err
}

// Touch takes signs of life of one owner's sessions; it never brings a route back (I4). Sessions
// that have no route here are appended to missing: their owner, if it still has them, should
// Restore them, and hears then whether to close them.
//
// Errors: *StaleTarget, ErrNotLeader, ErrInvalid (a session of another hash slot), ErrUnavailable.
func (d *Directory) Touch(t slot.Target, o Owner, live []SessionSeq, now time.Time, missing []identity.SessionID) ([]identity.SessionID, error) {
	c, s, err := d.enter(&t)
	defer c.mu.Unlock()
	if err != nil {
		return missing, err
	}
	return s.touch(o, live, d.instant(now), missing)
}

// Restore takes live sessions of one owner back, after a new term or when a touch found them
// missing. Complete says that the owner has now reported the whole hash slot (as OwnerReported).
//
// A route that was committed in this term wins over a restored one that it replaces, whatever their
// clocks say; only where this term has itself seen the restored life go, and either could have come
// after the other, do the times of connecting decide, as they do between two restored routes: the
// later wins. A restored route never evicts a committed one. Sessions of the caller that lost, or that were replaced before, whatever
// became of their replacement, are appended to closing: the owner closes them. Routes of other owners
// that lost are in fx.Evicted. Every route's own Gateway and Boot are ignored in favour of o.
//
// Errors: *StaleTarget, ErrNotLeader, ErrInvalid (nothing restored), ErrUnavailable, ErrFull
// (some are restored, and complete is not taken: repeat).
func (d *Directory) Restore(t slot.Target, o Owner, routes []Route, complete bool, now time.Time, fx *Effects, closing []identity.SessionID) ([]identity.SessionID, error) {
	c, s, err := d.enter(&t)
	defer c.mu.Unlock()
	if err != nil {
		return closing, err
	}
	closing, err = s.restore(o, routes, complete, d.instant(now), fx, closing)
	d.noteDue(s)
	return closing, err
}

// OwnerReported says that an awaited owner has restored all that it holds in the slot.
func (d *Directory) OwnerReported(t slot.Target, o Owner, now time.Time, fx *Effects) error {
	c, s, err := d.enter(&t)
	defer c.mu.Unlock()
	if err == nil {
		s.reported(intern(o), d.instant(now), fx)
	}
	return err
}

// OwnerGone removes every route and candidate of a gateway life that has ended, in all slots, in
// O(its routes) (I8), and stops awaiting it. For TombstoneTTL, or until OwnerBack, what it
// sent before is refused as ErrUnavailable. It returns the number of routes removed.
func (d *Directory) OwnerGone(o Owner, now time.Time, fx *Effects) int {
	key, at, n := intern(o), d.instant(now), 0
	d.gone.raise(key, at.ms, d.cfg.MaxOwners) // before the sweep: see fences
	d.lowerDue(at.ms + d.cfg.TombstoneTTL.Milliseconds())
	for i := range d.cells {
		c := &d.cells[i]
		c.mu.Lock()
		if c.dir != nil {
			n += c.dir.ownerGone(key, at, fx)
			d.noteDue(c.dir)
		}
		c.mu.Unlock()
	}
	return n
}

// Gone reports whether OwnerGone has ended the life, lately and for all that is known.
func (d *Directory) Gone(o Owner) bool { return d.gone.has(intern(o)) }

// OwnerBack lifts the fence of OwnerGone: the life was only silent (hung, cut off) and has been
// seen again. It restores its sessions itself.
func (d *Directory) OwnerBack(o Owner) {
	d.gone.lift(intern(o))
}

// RemoveExact removes one route if it still is what the caller saw: same owner, session and
// sequence. The caller was told by the owner that it is stale, or knows that the owner's life is
// over. No tombstone stays: an owner that has the session after all may restore it.
func (d *Directory) RemoveExact(t slot.Target, r Route, now time.Time, fx *Effects) (bool, error) {
	c, s, err := d.enter(&t)
	defer c.mu.Unlock()
	if err != nil {
		return false, err
	}
	return s.removeExact(&r, d.instant(now), fx), nil
}

// Lookup appends one entry for each uid, in order, with its active routes.
//
// Errors: *StaleTarget, ErrNotLeader, ErrInvalid (a uid of another hash slot: answering offline
// would be a lie); nothing is appended then.
func (d *Directory) Lookup(t slot.Target, uids []identity.UID, into *Found) error {
	for _, u := range uids {
		if slot.OfUID(u) != t.Hash {
			return ErrInvalid
		}
	}
	c, s, err := d.enter(&t)
	if err == nil {
		s.lookup(uids, into)
	}
	c.mu.Unlock()
	return err
}

// LookupSessions is Lookup by session id: each entry has one route or none.
func (d *Directory) LookupSessions(t slot.Target, ids []identity.SessionID, into *Found) error {
	for i := range ids {
		if ids[i].HashSlot() != uint8(t.Hash) {
			return ErrInvalid
		}
	}
	c, s, err := d.enter(&t)
	if err == nil {
		s.lookupSessions(ids, into)
	}
	c.mu.Unlock()
	return err
}
