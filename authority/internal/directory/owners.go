package directory

import (
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
)

func (s *slotDir) unregister(o Owner, batch []SessionSeq, now instant, fx *Effects) error {
	if !s.sessionsBelong(batch) {
		return ErrInvalid
	}
	owner := intern(o)
	for i := range batch {
		e := &batch[i]
		l := life{e.Session, owner}
		s.bury(l, e.OwnerSeq, now)
		if d, ok := s.past.lives.get(l); ok && d.seq <= e.OwnerSeq {
			s.past.forget(l) // its owner has closed it
		}
		if number, ok := s.candidates.bySession[e.Session]; ok {
			if c, _ := s.candidates.pending.get(number); c.owner == owner && c.route.OwnerSeq <= e.OwnerSeq {
				s.candidates.remove(number)
			}
		}
		rec, r := s.routes.session(e.Session)
		switch {
		case rec != nil && rec.owner == owner && rec.seq <= e.OwnerSeq:
			s.drop(r, rec, now, fx)
		case rec == nil && s.rebuilding() && slot.OfUID(e.UID) == s.target.Hash && s.routes.byUser[e.UID] == 0:
			s.hold(e.UID) // the earlier leader had announced the user online
		}
	}
	return nil
}

func (s *slotDir) touch(o Owner, batch []SessionSeq, now instant, missing []identity.SessionID) ([]identity.SessionID, error) {
	if !s.sessionsBelong(batch) {
		return missing, ErrInvalid
	}
	owner, second := intern(o), now.second()
	if s.gone.has(owner) {
		return missing, ErrUnavailable
	}
	for i := range batch {
		e := &batch[i]
		rec, r := s.routes.session(e.Session)
		if rec == nil || rec.owner != owner {
			missing = append(missing, e.Session)
			continue
		}
		if e.OwnerSeq < rec.seq {
			continue // overtaken by a later one
		}
		rec.seq, rec.active = e.OwnerSeq, max(rec.active, e.LastActive)
		s.routes.activity.touch(&s.routes.slab, r, rec, second)
	}
	return missing, nil
}

func (s *slotDir) restore(o Owner, routes []Route, complete bool, now instant, fx *Effects, closing []identity.SessionID) ([]identity.SessionID, error) {
	for i := range routes {
		if !s.belongs(&routes[i]) {
			return closing, ErrInvalid
		}
	}
	owner := intern(o)
	if s.gone.has(owner) {
		return closing, ErrUnavailable
	}
	for i := range routes {
		var err error
		if closing, err = s.restoreOne(&routes[i], owner, now, fx, closing); err != nil {
			return closing, err
		}
	}
	if complete {
		s.reported(owner, now, fx)
	}
	return closing, nil
}

func (s *slotDir) restoreOne(r *Route, owner ownerKey, now instant, fx *Effects, closing []identity.SessionID) ([]identity.SessionID, error) {
	// What was unregistered is closed already, what was replaced must be (I1, I4).
	l := life{r.Session, owner}
	if s.tombstones.covers(l, r.OwnerSeq) || s.past.replaced(l) {
		s.counters.Fenced++
		return append(closing, r.Session), nil
	}
	rec, at := s.routes.session(r.Session)
	switch {
	case rec != nil && rec.owner == owner:
		rec.seq, rec.active = max(rec.seq, r.OwnerSeq), max(rec.active, r.LastActive)
		s.routes.activity.touch(&s.routes.slab, at, rec, now.second())
		return closing, nil
	case rec != nil && (rec.seq >= r.OwnerSeq || rec.committed()): // it has moved on to another owner
		s.refuse(r, owner, now)
		return append(closing, r.Session), nil
	}
	policy := s.cfg.Policy(r.UID)
	if s.losesTo(r, owner, policy) {
		s.refuse(r, owner, now)
		return append(closing, r.Session), nil
	}
	if s.routes.len() >= s.cfg.MaxRoutes || s.routes.byOwner[owner] == 0 && len(s.routes.byOwner) >= s.cfg.MaxOwners {
		return closing, ErrFull
	}
	was := s.routes.byUser[r.UID] != 0
	closing = s.evict(r, owner, policy, now, fx, closing)
	s.routes.insert(r, owner, 0, now.second())
	s.past.forget(l)
	s.past.takePlace(r.UID, now.ms, func(d *departure) bool {
		o := d.life.session
		return o == r.Session && d.seq < r.OwnerSeq || o != r.Session &&
			later(r.ConnectedAt, r.Session, d.connected, o) && standsFor(policy, r.Device, d.device)
	})
	if s.rebuilding() {
		delete(s.held, r.UID) // online before and after: nothing to announce
		return closing, nil
	}
	s.announce(r.UID, was, now, fx)
	return closing, nil
}

// losesTo reports whether a later session of the user has taken a restored one's place. Which is
// later, the clocks of two gateways say only where the leader cannot. It knows of a session that was
// committed in this term: what it conflicts with either way came before, or it would have made way;
// and so did every life that this term has not seen go, for it cannot have begun in this term.
func (s *slotDir) losesTo(r *Route, owner ownerKey, p Policy) (loses bool) {
	_, seen := s.past.lives.get(life{r.Session, owner})
	s.routes.each(r.UID, func(_ ref, rec *record) bool {
		device := rec.deviceIdentity()
		loses = rec.session != r.Session && standsFor(p, device, r.Device) &&
			(rec.committed() && (!seen || standsFor(p, r.Device, device)) ||
				later(rec.connected, rec.session, r.ConnectedAt, r.Session))
		return !loses
	})
	return loses
}

// evict removes the routes that a restored one has taken the place of, never one that was committed
// in this term (see losesTo). None is dropped in silence: the caller's are appended to closing, the
// others to fx.Evicted.
func (s *slotDir) evict(r *Route, owner ownerKey, p Policy, now instant, fx *Effects, closing []identity.SessionID) []identity.SessionID {
	for {
		var out ref
		s.routes.each(r.UID, func(at ref, rec *record) bool {
			if rec.session == r.Session || !rec.committed() && later(r.ConnectedAt, r.Session, rec.connected, rec.session) &&
				standsFor(p, r.Device, rec.deviceIdentity()) {
				out = at
			}
			return out == 0
		})
		if out == 0 {
			return closing
		}
		rec := s.routes.slab.at(out)
		if rec.owner == owner {
			closing = append(closing, rec.session)
		} else {
			fx.Evicted = append(fx.Evicted, rec.route())
		}
		s.replace(out, rec, now)
	}
}

// reported takes an owner off the awaited ones; the last one ends the rebuild.
func (s *slotDir) reported(owner ownerKey, now instant, fx *Effects) {
	if !s.rebuilding() {
		return
	}
	delete(s.awaited, owner)
	if len(s.awaited) > 0 {
		return
	}
	s.awaited = nil
	for uid := range s.held {
		if s.routes.byUser[uid] == 0 {
			s.emit(uid, false, now, fx)
		}
	}
	s.held = nil
	fx.Rebuilt = append(fx.Rebuilt, s.target.Hash)
}

// ownerGone removes everything of an owner and returns the number of routes.
func (s *slotDir) ownerGone(owner ownerKey, now instant, fx *Effects) (n int) {
	for r := s.routes.byOwner[owner]; r != 0; r = s.routes.byOwner[owner] {
		s.lose(r, s.routes.slab.at(r), now, fx)
		n++
	}
	s.candidates.removeOwned(owner)
	s.reported(owner, now, fx)
	return n
}

func (s *slotDir) removeExact(r *Route, now instant, fx *Effects) bool {
	rec, at := s.routes.session(r.Session)
	if rec == nil || rec.seq != r.OwnerSeq || rec.uid != r.UID || rec.owner != intern(r.Owner()) {
		return false
	}
	s.drop(at, rec, now, fx)
	return true
}
