package deadline

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// Skew is how far the clocks of two nodes may be apart.
const Skew = 5 * time.Second

// Late reports whether the sender of a request has given up for certain: its deadline, unix
// milliseconds, passed more than Skew ago. 0 is no deadline.
func Late(ms int64, now time.Time) bool {
	return ms != 0 && now.UnixMilli() > ms+Skew.Milliseconds()
}

// End is until when it makes sense to work on a request that is not Late: Skew after its deadline,
// and at most `most` from now. Without a deadline, most from now.
func End(ms int64, now time.Time, most time.Duration) time.Time {
	end := now.Add(most)
	if ms == 0 {
		return end
	}
	if by := time.UnixMilli(ms).Add(Skew); by.Before(end) {
		return by
	}
	return end
}

// logEvery is the shortest time between two records of a Guard.
const logEvery = 10 * time.Second

// Guard turns late requests away, and counts them; the log hears of it now and then, since a clock
// that is wrong shows nowhere else.
type Guard struct {
	log    *slog.Logger
	late   atomic.Int64
	logged atomic.Int64 // unix milliseconds of the last record
}

// NewGuard makes a Guard. log nil: nothing is logged.
func NewGuard(log *slog.Logger) *Guard {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Guard{log: log}
}

// Late is the function of that name, for a request on a subject. What it reports as late is counted.
func (g *Guard) Late(ctx context.Context, subject string, ms int64, now time.Time) bool {
	if !Late(ms, now) {
		return false
	}
	n := g.late.Add(1)
	last, at := g.logged.Load(), now.UnixMilli()
	if at-last >= logEvery.Milliseconds() && g.logged.CompareAndSwap(last, at) {
		g.log.WarnContext(ctx, "late requests dropped: is a clock wrong?", "subject", subject,
			"late_ms", at-ms, "dropped", n)
	}
	return true
}

// Count is how many requests were late.
func (g *Guard) Count() int64 { return g.late.Load() }
