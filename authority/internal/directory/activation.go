package directory

import (
	"slices"

	"github.com/switchyard-io/switchyard/shared/identity"
)

// register makes or refreshes the candidate of a session.
func (s *slotDir) register(r *Route, p Policy, now instant) (Registration, error) {
	if !s.belongs(r) || r.Gateway == "" || r.Boot == "" {
		return Registration{}, ErrInvalid
	}
	owner := intern(r.Owner())
	if s.gone.has(owner) {
		return Registration{}, ErrUnavailable
	}
	if s.fenced(r.Session, owner, r.OwnerSeq) {
		return Registration{}, ErrFenced
	}
	conflicts, others := s.conflicts(r, owner, p)
	if p == PolicyRejectNew && others > 0 {
		return Registration{}, ErrDuplicate
	}
	if s.mustWait(p, r.Device, now) {
		return Registration{}, ErrUnavailable
	}
	s.lapse(now)
	if number, ok := s.candidates.bySession[r.Session]; ok {
		return s.refresh(number, r, owner, p, conflicts)
	}
	if s.candidates.pending.len() >= s.cfg.MaxCandidates || !s.roomFor(owner, others-len(conflicts), len(conflicts) > 0) {
		return Registration{}, ErrFull
	}
	number := s.candidates.add(&candidate{route: *r, owner: owner, policy: p}, now.ms)
	return Registration{Candidate: number, Conflicts: conflicts}, nil
}

// refresh answers a repeated register of a session that is pending: the later sequence counts.
func (s *slotDir) refresh(number uint64, r *Route, owner ownerKey, p Policy, conflicts []Route) (Registration, error) {
	c, _ := s.candidates.pending.get(number)
	switch {
	case r.OwnerSeq > c.route.OwnerSeq, c.owner == owner && r.OwnerSeq == c.route.OwnerSeq:
		c.route, c.owner, c.policy = *r, owner, p
	case c.owner != owner:
		s.counters.Fenced++
		return Registration{}, ErrFenced
	}
	return Registration{Candidate: number, Conflicts: conflicts}, nil
}

// mustWait reports whether a session must not be decided on while owners have not reported: one
// of them may hold a session that it conflicts with (I1). reject_new never goes without
// certainty; a replacing login waits for a bounded time only, as a kick does.
func (s *slotDir) mustWait(p Policy, d identity.Device, now instant) bool {
	if !s.rebuilding() || !mayReplace(p, d) {
		return false
	}
	return p == PolicyRejectNew || now.ms-s.openedMS < s.cfg.RebuildWait.Milliseconds()
}

// conflicts returns the active routes that a new session ends, and how many other sessions its
// user has. The session's own route at another owner conflicts under every policy: it has a
// socket of its own (I1).
func (s *slotDir) conflicts(r *Route, owner ownerKey, p Policy) (list []Route, others int) {
	s.routes.each(r.UID, func(_ ref, rec *record) bool {
		switch same := rec.session == r.Session; {
		case same && rec.owner == owner:
		case same:
			list = append(list, rec.route())
		default:
			others++
			if replaces(p, r.Device, rec.deviceIdentity()) {
				list = append(list, rec.route())
			}
		}
		return true
	})
	return list, others
}

// roomFor checks the bounds for one more route beside a user's staying ones (I12).
func (s *slotDir) roomFor(owner ownerKey, staying int, replacing bool) bool {
	if staying >= s.cfg.MaxUserRoutes || !replacing && s.routes.len() >= s.cfg.MaxRoutes {
		return false
	}
	return s.routes.byOwner[owner] != 0 || len(s.routes.byOwner) < s.cfg.MaxOwners
}

// lapse removes the candidates whose time is over.
func (s *slotDir) lapse(now instant) {
	n := s.candidates.removeUntil(now.ms - s.cfg.CandidateTimeout.Milliseconds())
	s.counters.CandidatesLapsed += uint64(n)
}

// commit makes a candidate visible.
func (s *slotDir) commit(number uint64, session identity.SessionID, confirmed []identity.SessionID, now instant, fx *Effects) error {
	s.lapse(now)
	c, ok := s.candidates.pending.get(number)
	if !ok || c.route.Session != session {
		rec, _ := s.routes.session(session)
		if rec != nil && number != 0 && rec.commitment == number {
			return nil // a repeat
		}
		return ErrExpired
	}
	r := &c.route
	if s.fenced(r.Session, c.owner, r.OwnerSeq) { // unregistered since it registered (I4)
		s.candidates.remove(number)
		return ErrFenced
	}
	conflicts, others := s.conflicts(r, c.owner, c.policy)
	if c.policy == PolicyRejectNew && others > 0 {
		s.candidates.remove(number)
		return ErrDuplicate
	}
	n := len(conflicts)
	open := slices.DeleteFunc(conflicts, func(o Route) bool { return slices.Contains(confirmed, o.Session) })
	if len(open) > 0 { // I1: not beside a session that may still receive
		return &Conflict{Routes: open}
	}
	if !s.roomFor(c.owner, others-n, n > 0) {
		s.candidates.remove(number)
		return ErrFull
	}
	s.candidates.remove(number)
	s.install(c, number, now, fx)
	return nil
}

// install puts a candidate in the place of the routes that it conflicts with, and of its own
// session's earlier route.
func (s *slotDir) install(c *candidate, commitment uint64, now instant, fx *Effects) {
	r := &c.route
	was := s.routes.byUser[r.UID] != 0
	for {
		var out ref
		s.routes.each(r.UID, func(at ref, rec *record) bool {
			if rec.session == r.Session || replaces(c.policy, r.Device, rec.deviceIdentity()) {
				out = at
			}
			return out == 0
		})
		if out == 0 {
			break
		}
		rec := s.routes.slab.at(out)
		if rec.session == r.Session && rec.owner == c.owner {
			s.routes.remove(out, rec) // the same life goes on: no tombstone
			continue
		}
		s.replace(out, rec, now)
	}
	s.routes.insert(r, c.owner, commitment, now.second())
	s.past.forget(life{r.Session, c.owner})
	s.past.takePlace(r.UID, now.ms, func(d *departure) bool {
		return d.life.session == r.Session || standsFor(c.policy, r.Device, d.device)
	})
	s.announce(r.UID, was, now, fx)
}
