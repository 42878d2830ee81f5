package directory

import (
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
)

// slotDir is the directory of one hash slot in one term. Guarded by its cell's mutex.
type slotDir struct {
	cfg        *Config
	target     slot.Target
	openedMS   int64
	routes     index
	candidates candidates
	tombstones tombstones
	past       past
	gone       *fences // of the Directory
	counters   Counters
	events     uint64 // transitions so far

	// awaited owners have not reported; nil once the slot serves.
	awaited map[ownerKey]struct{}
	// held are users who lost a session while rebuilding: whether they are offline shows at the
	// end of it (I7).
	held map[identity.UID]struct{}
}

func newSlotDir(cfg *Config, gone *fences, t slot.Target, awaited []Owner, now instant) *slotDir {
	s := &slotDir{cfg: cfg, target: t, openedMS: now.ms, gone: gone}
	for _, o := range awaited {
		if s.awaited == nil {
			s.awaited = make(map[ownerKey]struct{}, len(awaited))
		}
		s.awaited[intern(o)] = struct{}{}
	}
	return s
}

// fits is slot.Target.SameFence without its copies.
func (s *slotDir) fits(t *slot.Target) bool {
	c := &s.target
	return t.Term == c.Term && t.ConfigEpoch == c.ConfigEpoch && t.ID == c.ID && t.Hash == c.Hash &&
		t.LeaderBoot == c.LeaderBoot && t.LeaderNode == c.LeaderNode
}

func (s *slotDir) revise(revision uint64) { s.target.Revision = max(s.target.Revision, revision) }

func (s *slotDir) rebuilding() bool { return s.awaited != nil }

// belongs reports whether a route is whole and of this hash slot.
func (s *slotDir) belongs(r *Route) bool {
	return r.UID != "" && r.Session.HashSlot() == uint8(s.target.Hash) && slot.OfUID(r.UID) == s.target.Hash
}

func (s *slotDir) sessionsBelong(batch []SessionSeq) bool {
	for i := range batch {
		if batch[i].Session.HashSlot() != uint8(s.target.Hash) {
			return false
		}
	}
	return true
}

// fenced reports whether a route of owner at seq must not come (back): it is at or below its
// tombstone (I4), or an active route of the session is ahead of it.
func (s *slotDir) fenced(session identity.SessionID, owner ownerKey, seq uint64) bool {
	if s.tombstones.covers(life{session, owner}, seq) {
		s.counters.Fenced++
		return true
	}
	rec, _ := s.routes.session(session)
	if rec == nil || rec.seq < seq || rec.owner == owner && rec.seq == seq {
		return false
	}
	s.counters.Fenced++
	return true
}

// drop removes a route and announces what that means for its user.
func (s *slotDir) drop(r ref, rec *record, now instant, fx *Effects) {
	uid := rec.uid
	s.routes.remove(r, rec)
	s.announce(uid, true, now, fx)
}

// lose is drop for a route whose owner is silent, and may hold the session still.
func (s *slotDir) lose(r ref, rec *record, now instant, fx *Effects) {
	s.depart(departureOf(rec), now)
	s.drop(r, rec, now, fx)
}

// replace removes a route for a newer one, fences it at its sequence, and has its owner close the
// session whenever it presents it again.
func (s *slotDir) replace(r ref, rec *record, now instant) {
	d := departureOf(rec)
	d.replaced = true
	s.bury(d.life, d.seq, now)
	s.depart(d, now)
	s.routes.remove(r, rec)
}

func (s *slotDir) depart(d *departure, now instant) {
	s.counters.TombstonesLost += uint64(s.past.add(d, now.ms, s.cfg.MaxTombstones))
}

// refuse has the owner of a restored route close it, now and if the answer should be lost.
func (s *slotDir) refuse(r *Route, owner ownerKey, now instant) {
	s.depart(&departure{
		life: life{r.Session, owner}, uid: r.UID, device: r.Device, seq: r.OwnerSeq, connected: r.ConnectedAt, replaced: true,
	}, now)
}

func (s *slotDir) bury(l life, seq uint64, now instant) {
	lost := s.tombstones.bury(l, seq, now.ms, s.cfg.MaxTombstones)
	s.counters.TombstonesLost += uint64(lost)
}

// announce appends a transition if the user's being online has changed. While rebuilding,
// offline is held back until all owners have reported (I7), and online may repeat what an
// earlier leader had said already: twice is harmless, never is not.
func (s *slotDir) announce(uid identity.UID, was bool, now instant, fx *Effects) {
	is := s.routes.byUser[uid] != 0
	switch {
	case was == is:
	case s.rebuilding() && !is:
		s.hold(uid)
	default:
		delete(s.held, uid)
		s.emit(uid, is, now, fx)
	}
}

func (s *slotDir) hold(uid identity.UID) {
	if s.held == nil {
		s.held = make(map[identity.UID]struct{})
	}
	if _, known := s.held[uid]; !known && len(s.held) >= s.cfg.MaxTombstones {
		s.counters.TransitionsLost++
		return
	}
	s.held[uid] = struct{}{}
}

func (s *slotDir) emit(uid identity.UID, online bool, now instant, fx *Effects) {
	s.events++
	fx.Transitions = append(fx.Transitions, Transition{
		UID: uid, Online: online, Hash: s.target.Hash, Term: s.target.Term,
		N: s.target.Term<<32 + s.events, At: now.unix,
	})
}

func (s *slotDir) stats() SlotStats {
	return SlotStats{
		Open: true, Rebuilding: s.rebuilding(), Awaited: len(s.awaited),
		Routes: s.routes.len(), Users: len(s.routes.byUser), Owners: len(s.routes.byOwner),
		Candidates: s.candidates.pending.len(), Tombstones: s.tombstones.len(), Departed: s.past.lives.len(), Counters: s.counters,
	}
}
