package slot

// Target names the leader that a caller believes in: the fence of every authority call.
//
// All fields but Revision must match the answerer's own view exactly, or the call changes
// nothing (I3). Revision is the order of the caller's snapshot; it only tells which of two views
// is fresher.
type Target struct {
	Hash        Hash
	ID          ID
	LeaderNode  string
	LeaderBoot  string
	Term        uint64
	ConfigEpoch uint64
	Revision    uint64
}

// SameFence reports whether both name the same leadership, whatever their revisions.
func (t Target) SameFence(o Target) bool {
	t.Revision, o.Revision = 0, 0
	return t == o
}

// Newer reports whether t supersedes o: a higher (config epoch, term) wins.
func (t Target) Newer(o Target) bool {
	if t.ConfigEpoch != o.ConfigEpoch {
		return t.ConfigEpoch > o.ConfigEpoch
	}
	return t.Term > o.Term
}
