package session

import (
	"sync/atomic"

	"github.com/switchyard-io/switchyard/shared/fault"
)

// closeKinds are the codes that are counted apart; any other is counted as 0.
var closeKinds = [...]fault.CloseCode{
	0, fault.CloseDraining, fault.CloseSlowConsumer, fault.CloseIdleTimeout, fault.CloseAuthenticationTimeout,
	fault.CloseRateLimited, fault.CloseLeaseLost, fault.CloseInternal, fault.CloseProtocolViolation,
	fault.CloseUnauthenticated, fault.CloseReplaced, fault.CloseRevoked, fault.CloseBanned,
	fault.CloseForcedLogout, fault.CloseTooBig,
}

type counters struct {
	authenticated, refused, violations, rateLimited atomic.Int64
	pushes, overflows, duplicates, acked, unsent    atomic.Int64
	closes                                          [len(closeKinds)]atomic.Int64
}

func (c *counters) closed(code fault.CloseCode) {
	for i, k := range closeKinds {
		if k == code {
			c.closes[i].Add(1)
			return
		}
	}
	c.closes[0].Add(1)
}

// Stats counts since the Host was made.
type Stats struct {
	Authenticated, Refused  int64 // authenticate requests
	Violations, RateLimited int64 // frames
	Pushes                  int64 // queued for a client
	Overflows               int64 // pushes that a full queue refused
	Duplicates              int64 // pushes whose message id was known
	Unsent                  int64 // pushes that were held for a login and then could not be written
	Acked                   int64 // acknowledgements that somebody waited for
	Closed                  map[fault.CloseCode]int64
}

// Stats is a snapshot of the counters.
func (h *Host) Stats() Stats {
	c := &h.stats
	st := Stats{
		Authenticated: c.authenticated.Load(), Refused: c.refused.Load(),
		Violations: c.violations.Load(), RateLimited: c.rateLimited.Load(),
		Pushes: c.pushes.Load(), Overflows: c.overflows.Load(), Duplicates: c.duplicates.Load(), Acked: c.acked.Load(), Unsent: c.unsent.Load(),
		Closed: make(map[fault.CloseCode]int64, len(closeKinds)),
	}
	for i, k := range closeKinds {
		st.Closed[k] = c.closes[i].Load()
	}
	return st
}
