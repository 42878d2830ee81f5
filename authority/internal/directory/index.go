package directory

import (
	"unique"

	"github.com/switchyard-io/switchyard/shared/identity"
)

// index holds the active routes of a hash slot, each once, findable by session, by user, by
// owner and by age.
type index struct {
	slab      slab
	bySession map[identity.SessionID]ref
	byUser    map[identity.UID]ref // first of the user's routes
	byOwner   map[ownerKey]ref     // first of the owner's routes
	activity  activity
}

func (x *index) len() int { return x.slab.n }

func (x *index) session(id identity.SessionID) (*record, ref) {
	r := x.bySession[id]
	if r == 0 {
		return nil, 0
	}
	return x.slab.at(r), r
}

// each calls f for every route of a user until it returns false. f must not change the index.
func (x *index) each(uid identity.UID, f func(ref, *record) bool) {
	for r := x.byUser[uid]; r != 0; {
		rec := x.slab.at(r)
		if !f(r, rec) {
			return
		}
		r = rec.sibling
	}
}

// insert adds a route whose session is not in the index.
func (x *index) insert(route *Route, owner ownerKey, commitment uint64, second uint32) {
	if x.bySession == nil {
		x.bySession = make(map[identity.SessionID]ref)
		x.byUser = make(map[identity.UID]ref)
		x.byOwner = make(map[ownerKey]ref)
	}
	r, rec := x.slab.take()
	rec.session, rec.uid, rec.device = route.Session, route.UID, route.Device.ID
	rec.owner, rec.level, rec.commitment = owner, route.Device.Level, commitment
	rec.class = unique.Make(class{route.Device.Flag, route.Listener})
	rec.seq, rec.connected, rec.active = route.OwnerSeq, route.ConnectedAt, route.LastActive

	x.bySession[rec.session] = r
	rec.sibling = x.byUser[rec.uid]
	if rec.sibling != 0 {
		// The map keeps the key that it has, and with it that key's memory: share it.
		rec.uid = x.slab.at(rec.sibling).uid
	}
	x.byUser[rec.uid] = r
	if head := x.byOwner[owner]; head != 0 {
		rec.ownerNext = head
		x.slab.at(head).ownerPrev = r
	}
	x.byOwner[owner] = r
	x.activity.append(&x.slab, r, rec, second)
}

// remove takes a route out of everything. The record is void afterwards.
func (x *index) remove(r ref, rec *record) {
	x.activity.unlink(&x.slab, rec)
	x.unlinkOwner(rec)
	x.unlinkUser(r, rec)
	delete(x.bySession, rec.session)
	x.slab.put(r)
	if x.slab.n == 0 { // Go maps never shrink: an emptied slot starts anew
		x.bySession, x.byUser, x.byOwner = nil, nil, nil
	}
}

func (x *index) unlinkOwner(rec *record) {
	if rec.ownerNext != 0 {
		x.slab.at(rec.ownerNext).ownerPrev = rec.ownerPrev
	}
	switch {
	case rec.ownerPrev != 0:
		x.slab.at(rec.ownerPrev).ownerNext = rec.ownerNext
	case rec.ownerNext != 0:
		x.byOwner[rec.owner] = rec.ownerNext
	default:
		delete(x.byOwner, rec.owner)
	}
}

func (x *index) unlinkUser(r ref, rec *record) {
	head := x.byUser[rec.uid]
	if head != r {
		for p := x.slab.at(head); ; p = x.slab.at(p.sibling) {
			if p.sibling == r {
				p.sibling = rec.sibling
				return
			}
		}
	}
	if rec.sibling != 0 {
		x.byUser[rec.uid] = rec.sibling
		return
	}
	delete(x.byUser, rec.uid)
}
