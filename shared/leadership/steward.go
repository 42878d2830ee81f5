package leadership

import (
	"context"
	"sync"
	"time"

	"github.com/switchyard-io/switchyard/shared/membership"
	"github.com/switchyard-io/switchyard/shared/slot"
)

const (
	stepEvery = 200 * time.Millisecond
	// stepSpacing joins wake-ups that come in a row.
	stepSpacing = 2 * time.Millisecond
	// writers bounds the slots that are written at a time.
	writers = 16
	// movesPerStep bounds the slots that move for balance in one step.
	movesPerStep = 4
	moveEvery    = stepEvery
	heirFor      = time.Second
	turnFor      = time.Second
	writeTimeout = 2 * time.Second
	// claimRetry is the pause after a claim whose result is not known.
	claimRetry = 500 * time.Millisecond
)

// steward is the one goroutine that decides and acts for an Engine. All its fields are its own.
type steward struct {
	e       *Engine
	known   []Entry            // newest that this engine has written or read itself, by slot
	open    []time.Time        // since when a slot is without a living leader; zero: it is not
	retry   []time.Time        // not to be claimed before
	giving  map[slot.ID]tenure // releases that are not stored yet
	watch   *leaseWatch
	view    view
	moved   time.Time // last moves for balance
	settled bool      // the view is meaningful
	cancels []func()
}

// view is the set of lives that may lead, and the wish that follows from it.
type view struct {
	eligible []Owner
	wish     []Owner
	since    time.Time
}

func newSteward(e *Engine) *steward {
	n := len(e.tenures)
	s := &steward{
		e: e, known: make([]Entry, n), open: make([]time.Time, n), retry: make([]time.Time, n),
		giving: map[slot.ID]tenure{}, watch: newLeaseWatch(e),
	}
	s.cancels = append(s.cancels,
		e.table.Subscribe(func(slot.ID, Entry, Entry) { e.wake() }),
		e.table.tracker.Subscribe(func(ev membership.Event) {
			if ev.Node.Service == e.service && ev.Kind != membership.Beaconed {
				e.wake()
			}
		}))
	return s
}

func (s *steward) close() {
	for _, c := range s.cancels {
		c()
	}
	s.watch.wait()
	for id := range s.e.tenures {
		if s.e.tenures[id].Load() != nil {
			s.drop(slot.ID(id), LossStopped)
		}
	}
}

func (s *steward) run(ctx context.Context) {
	tick := time.NewTicker(stepEvery)
	defer tick.Stop()
	for {
		s.step(ctx)
		if !pause(ctx, stepSpacing) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-s.e.wakeup:
		case r := <-s.watch.results:
			s.watch.take(r)
		case <-tick.C:
		}
	}
}

// step looks at everything once.
func (s *steward) step(ctx context.Context) {
	if s.e.lease.lapses.Load() == 0 || !s.e.nc.IsConnected() {
		return // never held a lease, or cannot do a thing now
	}
	s.superseded()
	s.finishReleases(ctx)
	s.confirm(ctx)
	now := time.Now()
	s.look(now)
	var takes, gives, moves []slot.ID
	for i := range s.e.tenures {
		id := slot.ID(i)
		if _, ok := s.giving[id]; ok || now.Before(s.retry[id]) {
			continue
		}
		if s.e.draining.Load() && s.orphan(id) {
			s.disown(id)
			continue
		}
		switch s.e.rules.decide(s.situation(id, now)) {
		case take:
			takes = append(takes, id)
		case give:
			if s.e.draining.Load() {
				gives = append(gives, id)
			} else {
				moves = append(moves, id)
			}
		case keep:
		}
	}
	s.watch.check(ctx, now, s.leaders())
	if len(moves) > 0 && now.Sub(s.moved) >= moveEvery {
		s.moved = now
		gives = append(gives, moves[:min(len(moves), movesPerStep)]...)
	}
	s.claim(ctx, takes)
	s.give(ctx, gives)
}

// entry is the newest that is known of a slot.
func (s *steward) entry(id slot.ID) Entry {
	e := s.e.table.Snapshot().entries[id]
	if k := s.known[id]; k.Newer(e) || k.sameLeadership(e) && k.Revision > e.Revision {
		return k
	}
	return e
}

// learn keeps what was read or written, and tells the table.
func (s *steward) learn(id slot.ID, e Entry) {
	if !s.known[id].Newer(e) {
		s.known[id] = e
	}
	s.e.table.offer(id, e, feedSelf)
}

// superseded gives up what another life has taken.
func (s *steward) superseded() {
	for i := range s.e.tenures {
		id := slot.ID(i)
		if t := s.e.tenures[id].Load(); t != nil && s.entry(id).Newer(t.entry) {
			s.drop(id, LossSuperseded)
		}
	}
}

// look refreshes the view of the cluster and the wish that follows.
func (s *steward) look(now time.Time) {
	if s.settled = s.e.settled(); s.settled {
		s.e.joined.Store(true)
	}
	var eligible []Owner
	for _, n := range s.e.table.tracker.Live(s.e.service) {
		o := Owner{n.ID, n.Boot}
		if o != s.e.self && n.Eligible && !n.Silent {
			eligible = append(eligible, o)
		}
	}
	if !s.e.draining.Load() {
		eligible = append(eligible, s.e.self)
	}
	if s.view.wish != nil && sameOwners(eligible, s.view.eligible) {
		return
	}
	s.view = view{eligible: eligible, wish: wishes(eligible, len(s.e.tenures)), since: now}
}

// sameOwners compares two sets whose order is the tracker's, with self last.
func sameOwners(a, b []Owner) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// situation gathers what the decision about a slot rests on.
func (s *steward) situation(id slot.ID, now time.Time) situation {
	e := s.entry(id)
	sit := situation{
		self: s.e.self, entry: e, epoch: s.e.table.layout.ConfigEpoch, leader: s.leader(id, e),
		draining: s.e.draining.Load(), eligible: s.e.eligible(), settled: s.settled,
		stable: now.Sub(s.view.since), wish: s.view.wish[id],
	}
	for _, o := range s.view.eligible {
		sit.heir = sit.heir || o == e.ReleasedTo
	}
	switch sit.leader {
	case leaderNone, leaderGone:
		if s.open[id].IsZero() {
			s.open[id] = now
		}
		sit.open, sit.turn = now.Sub(s.open[id]), turnOf(s.e.self, s.view.eligible, id)
		if e.Leader == s.e.self {
			sit.turn = -1 // nobody else can tell that it leads nothing: at once, whatever the wish
		}
	case leaderSelf, leaderAlive, leaderDoubtful:
		s.open[id] = time.Time{}
	}
	return sit
}

// orphan reports whether the record names this life, which holds no such tenure: a claim was done
// after all whose result was never heard.
func (s *steward) orphan(id slot.ID) bool {
	return s.entry(id).Leader == s.e.self && s.e.tenures[id].Load() == nil
}

// disown has an orphan released, since a draining node does not claim it.
func (s *steward) disown(id slot.ID) {
	released := s.entry(id)
	released.Leader, released.ReleasedTo = Owner{}, s.view.wish[id]
	s.giving[id] = tenure{entry: released}
	s.e.pending.Store(int64(len(s.giving)))
}

// leader judges the leader of a slot.
func (s *steward) leader(id slot.ID, e Entry) leaderState {
	if !e.Led() {
		return leaderNone
	}
	if e.Leader == s.e.self {
		if t := s.e.tenures[id].Load(); t != nil {
			if !s.e.certain(t) {
				return leaderAlive // uncertain: nothing to decide before it is confirmed
			}
			return leaderSelf
		}
		return leaderGone // an orphan: free to be claimed again
	}
	tracker := s.e.table.tracker
	switch tracker.Status(s.e.service, e.Leader.Node, e.Leader.Boot) {
	case membership.Gone:
		return leaderGone
	case membership.Live:
		if s.watch.abandoned(e.Leader) {
			return leaderGone
		}
		return leaderAlive
	case membership.Unknown:
		tracker.Suspect(s.e.service, e.Leader.Node, e.Leader.Boot)
	case membership.Quiet, membership.Hung:
	}
	if s.watch.lapsed(e.Leader) {
		return leaderGone
	}
	return leaderDoubtful
}

// leaders are the lives, other than this one, that lead a slot.
func (s *steward) leaders() map[Owner]bool {
	out := map[Owner]bool{}
	for i := range s.e.tenures {
		if o := s.entry(slot.ID(i)).Leader; !o.IsZero() && o != s.e.self {
			out[o] = true
		}
	}
	return out
}

// each runs f for several slots side by side, and returns when all are done.
func each(ids []slot.ID, f func(i int, id slot.ID)) {
	var wg sync.WaitGroup
	room := make(chan struct{}, writers)
	for i, id := range ids {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			f(i, id)
		})
	}
	wg.Wait()
}
