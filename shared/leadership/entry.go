package leadership

import (
	"github.com/switchyard-io/switchyard/shared/slot"
)

// Owner is one process life.
type Owner struct {
	Node string
	Boot string
}

// IsZero reports whether no owner is named.
func (o Owner) IsZero() bool { return o == Owner{} }

// Entry is the leadership of one logical slot.
type Entry struct {
	// Leader is zero where nobody leads.
	Leader      Owner
	Term        uint64
	ConfigEpoch uint64
	// ReleasedTo names whom a slot without leader was released to; zero: to anybody.
	ReleasedTo Owner
	// Revision is the KV sequence of the record, for freshness only; 0 where a beacon said it.
	Revision uint64
}

// Led reports whether somebody leads the slot.
func (e Entry) Led() bool { return !e.Leader.IsZero() }

// Newer reports whether e supersedes o: a higher (config epoch, term) wins, and at the same term a
// release supersedes the leadership that it ended.
func (e Entry) Newer(o Entry) bool {
	if e.ConfigEpoch != o.ConfigEpoch {
		return e.ConfigEpoch > o.ConfigEpoch
	}
	if e.Term != o.Term {
		return e.Term > o.Term
	}
	return !e.Led() && o.Led()
}

// Target is the fence for a hash slot in the led slot id.
func (e Entry) Target(h slot.Hash, id slot.ID) slot.Target {
	return slot.Target{
		Hash: h, ID: id, LeaderNode: e.Leader.Node, LeaderBoot: e.Leader.Boot,
		Term: e.Term, ConfigEpoch: e.ConfigEpoch, Revision: e.Revision,
	}
}
