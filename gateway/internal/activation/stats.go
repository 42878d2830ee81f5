package activation

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/session"
	"github.com/switchyard-io/switchyard/shared/fault"
)

type counters struct {
	activated, used, unauthenticated, unavailable, closed, other atomic.Int64
	evicted, fenced, spent                                       atomic.Int64
	nanos                                                        atomic.Int64
}

func (c *counters) done(err error, took time.Duration) {
	c.nanos.Add(int64(took))
	switch {
	case err == nil:
		c.activated.Add(1)
	case errors.Is(err, ErrUsed):
		c.used.Add(1)
	case errors.Is(err, fault.ErrUnauthenticated):
		c.unauthenticated.Add(1)
	case errors.Is(err, fault.ErrUnavailable), errors.Is(err, fault.ErrTimeout):
		c.unavailable.Add(1)
	case errors.Is(err, session.ErrClosed):
		c.closed.Add(1)
	default:
		c.other.Add(1)
	}
}

// Stats counts since the Activation was made.
type Stats struct {
	Activated       int64
	Used            int64 // refused: the ticket was used
	Unauthenticated int64 // refused: any other fault of a ticket
	Unavailable     int64 // refused: no leader, no ticketing, time-outs
	Closed          int64 // given up: the connection closed meanwhile
	Other           int64 // refused: anything else
	Evicted         int64 // sessions that confirmed to make way
	Fenced          int64 // sessions whose owner stayed silent
	Spent           int64 // tickets that could not be released
	Seconds         float64
	AtWork          int // now
	Releasing       int // tickets, now
}

// Stats is a snapshot of the counters.
func (a *Activation) Stats() Stats {
	c := &a.stats
	return Stats{
		Activated: c.activated.Load(), Used: c.used.Load(), Unauthenticated: c.unauthenticated.Load(),
		Unavailable: c.unavailable.Load(), Closed: c.closed.Load(), Other: c.other.Load(),
		Evicted: c.evicted.Load(), Fenced: c.fenced.Load(), Spent: c.spent.Load(),
		Seconds: time.Duration(c.nanos.Load()).Seconds(), AtWork: len(a.slots), Releasing: a.releases.count(),
	}
}
