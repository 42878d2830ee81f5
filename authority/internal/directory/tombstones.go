package directory

import "github.com/switchyard-io/switchyard/shared/identity"

// life is what a tombstone fences: a session at one owner. A session that moved to another
// owner is not held back by the old one's end (I13).
type life struct {
	session identity.SessionID
	owner   ownerKey
}

// tombstones keep the highest owner_seq at which each life was unregistered or replaced (I4).
// Those of an owner that is gone end with its own fence at the latest, which lasts as long; not
// before it, because a silent owner can come back (OwnerBack).
type tombstones struct {
	deadlines[life, uint64]
}

// bury raises the tombstone of a life to seq. Of more than limit the oldest goes; it returns how
// many went.
func (t *tombstones) bury(l life, seq uint64, at int64, limit int) (lost int) {
	if known, ok := t.get(l); ok {
		seq = max(seq, known)
	}
	t.put(l, seq, at)
	for t.len() > limit {
		oldest, _, _ := t.oldest()
		t.drop(oldest)
		lost++
	}
	return lost
}

// covers reports whether seq is at or below the tombstone of a life.
func (t *tombstones) covers(l life, seq uint64) bool {
	s, ok := t.get(l)
	return ok && seq <= s
}
