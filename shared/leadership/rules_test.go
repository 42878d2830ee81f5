package leadership

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/switchyard-io/switchyard/shared/slot"
)

var testRules = rules{stableFor: 2 * time.Second, heirFor: time.Second, turnFor: time.Second}

func drawSituation(rt *rapid.T) situation {
	owner := func(name string) Owner {
		return rapid.SampledFrom([]Owner{{}, {"a", "1"}, {"b", "1"}, {"c", "1"}}).Draw(rt, name)
	}
	dur := func(name string) time.Duration {
		return time.Duration(rapid.IntRange(0, 6000).Draw(rt, name)) * time.Millisecond
	}
	s := situation{
		self: Owner{"a", "1"}, epoch: 2, leader: leaderState(rapid.IntRange(0, 4).Draw(rt, "leader")),
		draining: rapid.Bool().Draw(rt, "draining"), eligible: rapid.Bool().Draw(rt, "eligible"),
		settled: rapid.Bool().Draw(rt, "settled"), stable: dur("stable"), wish: owner("wish"),
		turn: rapid.IntRange(0, 3).Draw(rt, "turn"), heir: rapid.Bool().Draw(rt, "heir"), open: dur("open"),
	}
	s.entry = Entry{Term: 3, ConfigEpoch: rapid.Uint64Range(1, 2).Draw(rt, "epoch")}
	if s.leader == leaderNone {
		s.entry.ReleasedTo = owner("to")
	} else {
		s.entry.Leader = Owner{"x", "1"}
	}
	return s
}

func TestRulesOfOneSlot(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawSituation(rt)
		old := s.entry.ConfigEpoch < s.epoch
		switch testRules.decide(s) {
		case take:
			if s.leader == leaderSelf || !s.eligible {
				rt.Fatalf("claims what it has, or without a lease: %+v", s)
			}
			if (s.leader == leaderAlive || s.leader == leaderDoubtful) && !old {
				rt.Fatalf("takes from a living leader: %+v", s)
			}
			if !s.settled {
				rt.Fatalf("claims without a view: %+v", s)
			}
		case give:
			if s.leader != leaderSelf {
				rt.Fatalf("gives what it has not: %+v", s)
			}
			if !s.draining && (s.stable < 2*time.Second || s.wish == s.self || s.wish.IsZero() || !s.settled) {
				rt.Fatalf("moves without need, or too early: %+v", s)
			}
		case keep:
			if s.leader == leaderSelf && s.draining {
				rt.Fatalf("keeps while draining: %+v", s)
			}
			free := s.leader == leaderNone || s.leader == leaderGone || old && s.leader != leaderSelf
			if free && s.eligible && s.settled && s.open >= 5*time.Second {
				rt.Fatalf("leaves a slot without leader: %+v", s)
			}
		}
	})
}

// TestI7_AnHeirWaitsForItsView: whom a slot was released to takes it only when it knows the gateways
// whose reports it must wait for.
func TestI7_AnHeirWaitsForItsView(t *testing.T) {
	self := Owner{"a", "1"}
	s := situation{self: self, leader: leaderNone, eligible: true, entry: Entry{Term: 3, ConfigEpoch: 1, ReleasedTo: self}, epoch: 1}
	if got := testRules.decide(s); got != keep {
		t.Errorf("without a view: %d", got)
	}
	s.settled = true
	if got := testRules.decide(s); got != take {
		t.Errorf("with a view: %d", got)
	}
}

func TestNewerIsAStrictOrder(t *testing.T) {
	entry := rapid.Custom(func(rt *rapid.T) Entry {
		e := Entry{Term: rapid.Uint64Range(0, 3).Draw(rt, "term"), ConfigEpoch: rapid.Uint64Range(0, 2).Draw(rt, "epoch")}
		if rapid.Bool().Draw(rt, "led") {
			e.Leader = Owner{"a", "1"}
		}
		return e
	})
	rapid.Check(t, func(rt *rapid.T) {
		a, b, c := entry.Draw(rt, "a"), entry.Draw(rt, "b"), entry.Draw(rt, "c")
		if a.Newer(a) || a.Newer(b) && b.Newer(a) {
			rt.Fatalf("not asymmetric: %+v %+v", a, b)
		}
		if a.Newer(b) && b.Newer(c) && !a.Newer(c) {
			rt.Fatalf("not transitive: %+v %+v %+v", a, b, c)
		}
	})
}

func TestEntryRoundTrip(t *testing.T) {
	for _, e := range []Entry{
		{Leader: Owner{"a", "1"}, Term: 7, ConfigEpoch: 1, Revision: 9},
		{ReleasedTo: Owner{"b", "2"}, Term: 7, ConfigEpoch: 1, Revision: 10},
	} {
		got, err := decodeEntry(e.encode(), e.Revision)
		if err != nil || got != e {
			t.Errorf("%+v -> %+v, %v", e, got, err)
		}
	}
	for _, bad := range []string{"", "{}", "[]", `{"leader_node":"a","term":1,"config_epoch":1}`, `{"leader_node":"a","leader_boot":"b","config_epoch":1}`} {
		if _, err := decodeEntry([]byte(bad), 1); err == nil {
			t.Errorf("%q was understood", bad)
		}
	}
}

// modelNode is a node of the model: what it believes may be arbitrarily old or wrong, except that
// the record is only changed by compare-and-set.
type modelNode struct {
	self  Owner
	seen  Entry // some earlier state of the record
	holds uint64
}

// Nodes with wrong views decide by the rules and write by compare-and-set, in any order and with any
// delay: no term has two leaders, terms only grow, and who believes to hold the newest term does.
func TestModel_TermHasOneLeader(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		record := Entry{}
		winner := map[uint64]Owner{}
		var nodes []*modelNode
		for i := range rapid.IntRange(1, 4).Draw(rt, "nodes") {
			nodes = append(nodes, &modelNode{self: Owner{fmt.Sprint("n", i), "1"}})
		}
		for range rapid.IntRange(1, 80).Draw(rt, "steps") {
			n := rapid.SampledFrom(nodes).Draw(rt, "node")
			if rapid.Bool().Draw(rt, "look") {
				n.seen = record
				if n.holds != 0 && (record.Term > n.holds || !record.Led()) {
					n.holds = 0
				}
			}
			s := drawSituation(rt)
			s.self, s.entry, s.epoch = n.self, n.seen, 1
			if n.holds != 0 {
				s.leader = leaderSelf
			} else if s.leader == leaderSelf {
				s.leader = leaderGone
			}
			want := Entry{ConfigEpoch: 1, Revision: n.seen.Revision + 1}
			switch testRules.decide(s) {
			case take:
				want.Leader, want.Term = n.self, n.seen.Term+1
			case give:
				want.Term, want.ReleasedTo = n.holds, s.wish
				n.holds = 0
			case keep:
				continue
			}
			if record.Revision != n.seen.Revision {
				continue // compare-and-set fails
			}
			if want.Led() {
				if first, ok := winner[want.Term]; ok {
					rt.Fatalf("term %d won by %v and %v", want.Term, first, n.self)
				}
				winner[want.Term], n.holds = n.self, want.Term
			}
			if record.Newer(want) || record.Term > want.Term {
				rt.Fatalf("the record goes back: %+v -> %+v", record, want)
			}
			record, n.seen = want, want
		}
	})
}

func TestTurnsDiffer(t *testing.T) {
	all := []Owner{{"a", "1"}, {"b", "1"}, {"c", "1"}}
	for id := range slot.ID(32) {
		seen := map[int]bool{}
		for _, o := range all {
			seen[turnOf(o, all, id)] = true
		}
		if len(seen) != len(all) {
			t.Fatalf("slot %d: two nodes have the same turn", id)
		}
	}
}
