package leadership

import (
	"cmp"
	"slices"
	"time"

	"github.com/switchyard-io/switchyard/shared/slot"
)

// leaderState is what a node knows of a slot's leader.
type leaderState uint8

const (
	// leaderNone: the record names nobody.
	leaderNone leaderState = iota
	// leaderSelf: this life leads it.
	leaderSelf
	// leaderAlive: its beacons come.
	leaderAlive
	// leaderDoubtful: silent, and it may still hold its lease.
	leaderDoubtful
	// leaderGone: dead by the probe, or silent with its lease run out.
	leaderGone
)

// situation is everything that the decision about one slot rests on.
type situation struct {
	self     Owner
	entry    Entry
	epoch    uint64 // of the cluster's layout
	leader   leaderState
	draining bool          // this node gives everything away
	eligible bool          // this node may claim: lease held, not draining
	settled  bool          // the view of the cluster is meaningful
	stable   time.Duration // since the set of eligible nodes last changed
	wish     Owner         // who should lead; zero: nobody can
	turn     int           // this node's place among the eligible ones, should the wished one not act
	heir     bool          // whom the slot was released to is alive and eligible
	open     time.Duration // how long the slot has been without a living leader
}

// action is what a node does about a slot.
type action uint8

const (
	keep action = iota
	take
	give
)

// rules are the bounds of decide.
type rules struct {
	// stableFor: a slot moves for balance only after the view has not changed for this long.
	stableFor time.Duration
	// heirFor: how long a released slot is left to whom it was released to.
	heirFor time.Duration
	// turnFor: how long each eligible node has before the next one in turn claims instead.
	turnFor time.Duration
}

// decide is the whole rule of leadership for one slot, free of clocks and of I/O. It only says what
// to try: whether a claim succeeds is decided by compare-and-set on the record.
func (r rules) decide(s situation) action {
	if s.leader == leaderSelf {
		switch {
		case s.draining:
			return give
		case !s.wish.IsZero() && s.wish != s.self && s.settled && s.stable >= r.stableFor:
			return give
		}
		return keep
	}
	if !s.eligible {
		return keep
	}
	old := s.entry.ConfigEpoch < s.epoch && s.entry.Term > 0 // led under a layout that is no more
	free := s.leader == leaderNone || s.leader == leaderGone || old
	if !free || !s.settled {
		return keep // without a view a new leader would not know whose reports to wait for (I7)
	}
	if s.leader == leaderNone && !s.entry.ReleasedTo.IsZero() {
		if s.entry.ReleasedTo == s.self {
			return take
		}
		if s.heir && s.open < r.heirFor {
			return keep
		}
	}
	if s.wish == s.self || s.open >= time.Duration(s.turn+1)*r.turnFor {
		return take
	}
	return keep
}

// wishes turns the plan for a set of eligible lives into owners. Of two lives of one node the
// younger counts.
func wishes(eligible []Owner, slots int) []Owner {
	byNode := map[string]Owner{}
	for _, o := range eligible {
		if o.Boot > byNode[o.Node].Boot {
			byNode[o.Node] = o
		}
	}
	nodes := make([]string, 0, len(byNode))
	for n := range byNode {
		nodes = append(nodes, n)
	}
	out := make([]Owner, slots)
	for id, n := range Plan(nodes, slots) {
		out[id] = byNode[n]
	}
	return out
}

// turnOf is self's place among the eligible lives in the order in which a slot wants them.
func turnOf(self Owner, eligible []Owner, id slot.ID) int {
	order := slices.SortedFunc(slices.Values(eligible), func(a, b Owner) int {
		return cmp.Or(cmp.Compare(weight(b.Node, id), weight(a.Node, id)), cmp.Compare(a.Boot, b.Boot))
	})
	return max(0, slices.Index(order, self))
}
