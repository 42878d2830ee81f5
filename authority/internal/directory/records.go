package directory

import (
	"unique"

	"github.com/switchyard-io/switchyard/shared/identity"
)

// ref names a record in its slot's slab: index + 1, so that the zero ref is none. Four bytes
// where a pointer has eight, and nothing for the garbage collector to follow.
type ref uint32

// maxRecords keeps every index within a ref.
const maxRecords = 1 << 30

type ownerKey = unique.Handle[Owner]

func intern(o Owner) ownerKey { return unique.Make(o) }

// class is what many routes have in common; interned, it takes eight bytes a route. Flags are
// chosen by clients: the runtime forgets those that no route has any more.
type class struct {
	flag     string
	listener string
}

// record is a stored route, a member of three lists at once. 128 bytes.
type record struct {
	session   identity.SessionID
	uid       identity.UID
	device    string
	owner     ownerKey
	class     unique.Handle[class]
	seq       uint64
	connected int64
	active    int64

	second     uint32 // of the last sign of life, monotonic since the directory's start
	older      ref    // activity list, by second
	newer      ref
	ownerPrev  ref // routes of the same owner
	ownerNext  ref
	sibling    ref // next route of the same user
	level      identity.Level
	commitment uint64 // candidate that became this route, 0 if it was restored
}

func (r *record) deviceIdentity() identity.Device {
	return identity.Device{ID: r.device, Flag: r.class.Value().flag, Level: r.level}
}

// committed reports whether the route came by a login in this term.
func (r *record) committed() bool { return r.commitment != 0 }

func (r *record) fill(out *Route) {
	o, c := r.owner.Value(), r.class.Value()
	out.UID, out.Gateway, out.Boot, out.Session = r.uid, o.Gateway, o.Boot, r.session
	out.Device = identity.Device{ID: r.device, Flag: c.flag, Level: r.level}
	out.Listener, out.OwnerSeq, out.ConnectedAt, out.LastActive = c.listener, r.seq, r.connected, r.active
}

func (r *record) route() (out Route) {
	r.fill(&out)
	return out
}

const chunkRecords = 64

// slab stores records in chunks, so that growing copies nothing and a record never moves.
type slab struct {
	chunks [][]record
	free   ref // chained by sibling
	next   ref // first never used
	n      int
}

func (s *slab) at(r ref) *record {
	i := uint32(r - 1)
	return &s.chunks[i/chunkRecords][i%chunkRecords]
}

func (s *slab) take() (ref, *record) {
	s.n++
	if s.free != 0 {
		r := s.free
		rec := s.at(r)
		s.free = rec.sibling
		rec.sibling = 0
		return r, rec
	}
	if int(s.next) == len(s.chunks)*chunkRecords {
		s.chunks = append(s.chunks, make([]record, chunkRecords))
	}
	s.next++
	return s.next, s.at(s.next)
}

func (s *slab) put(r ref) {
	s.n--
	if s.n == 0 { // an emptied slot gives its memory back
		*s = slab{}
		return
	}
	*s.at(r) = record{sibling: s.free}
	s.free = r
}
