package leadership

import (
	"encoding/json"
	"fmt"

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

// sameLeadership reports whether both name the same leader at the same term.
func (e Entry) sameLeadership(o Entry) bool {
	return e.Leader == o.Leader && e.Term == o.Term && e.ConfigEpoch == o.ConfigEpoch
}

// record is the stored form of an Entry: the JSON value of a key in SY_SLOTS.
type record struct {
	LeaderNode     string `json:"leader_node"`
	LeaderBoot     string `json:"leader_boot"`
	Term           uint64 `json:"term"`
	ConfigEpoch    uint64 `json:"config_epoch"`
	ReleasedToNode string `json:"released_to_node,omitempty"`
	ReleasedToBoot string `json:"released_to_boot,omitempty"`
}

func (e Entry) encode() []byte {
	b, err := json.Marshal(record{
		e.Leader.Node, e.Leader.Boot, e.Term, e.ConfigEpoch, e.ReleasedTo.Node, e.ReleasedTo.Boot,
	})
	if err != nil { // strings and numbers only: cannot fail
		panic(err)
	}
	return b
}

// decodeEntry reads a stored record. Fields that a newer version adds are ignored.
func decodeEntry(data []byte, revision uint64) (Entry, error) {
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return Entry{}, fmt.Errorf("slot record: %w", err)
	}
	if r.Term == 0 || r.ConfigEpoch == 0 || (r.LeaderNode == "") != (r.LeaderBoot == "") {
		return Entry{}, fmt.Errorf("slot record: incomplete")
	}
	return Entry{
		Leader: Owner{r.LeaderNode, r.LeaderBoot}, Term: r.Term, ConfigEpoch: r.ConfigEpoch,
		ReleasedTo: Owner{r.ReleasedToNode, r.ReleasedToBoot}, Revision: revision,
	}, nil
}
