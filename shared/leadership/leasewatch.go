package leadership

import (
	"context"
	"sync"
	"time"

	"github.com/switchyard-io/switchyard/shared/membership"
)

const (
	leaseReadTimeout = time.Second
	// doubtfulEvery and aliveEvery pace the readings of a leader's lease.
	doubtfulEvery = 500 * time.Millisecond
	aliveEvery    = 5 * time.Second
)

// leaseWatch looks whether other leaders still hold their node leases, beside the steward's
// goroutine, to which all else here belongs.
type leaseWatch struct {
	e       *Engine
	results chan []leaseReading
	running sync.WaitGroup
	busy    bool
	seen    map[Owner]leaseSeen // leaders only
}

type leaseReading struct {
	owner Owner
	at    time.Time
	held  bool
	err   error
}

type leaseSeen struct {
	asked   time.Time
	missing time.Time // since when readings find none; zero: held, or not known
}

func newLeaseWatch(e *Engine) *leaseWatch {
	return &leaseWatch{e: e, results: make(chan []leaseReading, 1), seen: map[Owner]leaseSeen{}}
}

// check starts the readings that are due for these leaders, and forgets all others.
func (w *leaseWatch) check(ctx context.Context, now time.Time, leaders map[Owner]bool) {
	for o := range w.seen {
		if !leaders[o] {
			delete(w.seen, o)
		}
	}
	if w.busy {
		return
	}
	var due []Owner
	for o := range leaders {
		every := doubtfulEvery
		switch w.e.table.tracker.Status(w.e.service, o.Node, o.Boot) {
		case membership.Gone:
			continue // nothing left to ask
		case membership.Live:
			every = aliveEvery
		case membership.Unknown, membership.Quiet, membership.Hung:
		}
		if s := w.seen[o]; now.Sub(s.asked) >= every {
			s.asked = now
			w.seen[o] = s
			due = append(due, o)
		}
	}
	if len(due) == 0 {
		return
	}
	w.busy = true
	w.running.Go(func() {
		out := make([]leaseReading, len(due))
		for i, o := range due {
			out[i] = w.read(ctx, o)
		}
		w.results <- out
	})
}

func (w *leaseWatch) read(ctx context.Context, o Owner) leaseReading {
	ctx, cancel := context.WithTimeout(ctx, leaseReadTimeout)
	defer cancel()
	v, err := w.e.lease.bucket.get(ctx, leaseKey(o))
	return leaseReading{owner: o, at: time.Now(), held: v.live, err: err}
}

// take applies readings. One that failed says nothing, least of all that a lease ran out.
func (w *leaseWatch) take(readings []leaseReading) {
	w.busy = false
	for _, r := range readings {
		s, ok := w.seen[r.owner]
		if !ok || r.err != nil {
			continue
		}
		switch {
		case r.held:
			s.missing = time.Time{}
		case s.missing.IsZero():
			s.missing = r.at
		}
		w.seen[r.owner] = s
	}
}

// lapsed reports whether a leader that is silent has lost its lease, too.
func (w *leaseWatch) lapsed(o Owner) bool { return !w.seen[o].missing.IsZero() }

// abandoned reports whether a leader that is alive has been without a lease for so long that it
// cannot be a passing trouble: it has refused to serve all the time.
func (w *leaseWatch) abandoned(o Owner) bool {
	m := w.seen[o].missing
	return !m.IsZero() && time.Since(m) >= w.e.cfg.LeaseTTL
}

func (w *leaseWatch) wait() { w.running.Wait() }
