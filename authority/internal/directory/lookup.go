package directory

import "github.com/switchyard-io/switchyard/shared/identity"

// absent is what no route means (I7).
func (s *slotDir) absent() Presence {
	if s.rebuilding() {
		return PresenceUnknown
	}
	return PresenceOffline
}

func (s *slotDir) lookup(uids []identity.UID, into *Found) {
	absent := s.absent()
	for _, uid := range uids {
		from := len(into.Routes)
		for r := s.routes.byUser[uid]; r != 0; {
			rec := s.routes.slab.at(r)
			into.add(rec)
			r = rec.sibling
		}
		into.close(from, absent)
	}
}

func (s *slotDir) lookupSessions(ids []identity.SessionID, into *Found) {
	absent := s.absent()
	for i := range ids {
		from := len(into.Routes)
		if rec, _ := s.routes.session(ids[i]); rec != nil {
			into.add(rec)
		}
		into.close(from, absent)
	}
}

func (f *Found) add(rec *record) {
	f.Routes = append(f.Routes, Route{})
	rec.fill(&f.Routes[len(f.Routes)-1])
}

// close ends an entry whose routes begin at from.
func (f *Found) close(from int, absent Presence) {
	e := Entry{Presence: absent, From: from, To: len(f.Routes)}
	if e.To > from {
		e.Presence = PresenceOnline
	}
	f.Entries = append(f.Entries, e)
}
