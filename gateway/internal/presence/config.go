package presence

import (
	"errors"
	"time"
)

// Config bounds the presence client. A zero value takes the default.
type Config struct {
	// Gateway and Boot name this life of this gateway. Required.
	Gateway, Boot string
	// AttemptTimeout is how long one attempt of a call may take before it is tried again
	// against what the slot table says then. Default 1 s.
	AttemptTimeout time.Duration
	// MaxAttempts bounds the attempts of one call, within its context. Default 32.
	MaxAttempts int
	// BackoffMin and BackoffMax bound the pause between two attempts. Defaults 20 ms, 500 ms.
	BackoffMin, BackoffMax time.Duration
	// TouchInterval is how often dirty sessions are drained. Default 2 s.
	TouchInterval time.Duration
	// BatchSessions is the most sessions in one request. Default 512.
	BatchSessions int
	// MaxInFlight bounds the batch requests of a worker that wait for an answer. Default 8.
	MaxInFlight int
	// UnregisterQueue is the most unregisters that wait; one more is refused. Default 262144.
	UnregisterQueue int
	// ReconcileInterval is how often the terms that were told are compared with the slot table,
	// beside each SlotChanged. Default 1 s.
	ReconcileInterval time.Duration
	// Reconnects counts how often this gateway's connections came back. When it has changed, every
	// leader is told everything again: it may have taken this gateway for gone meanwhile, and have
	// dropped its routes. See also ReportAgain. Nil: never.
	Reconnects func() uint64
}

func (c *Config) defaults() error {
	if c.Gateway == "" || c.Boot == "" {
		return errors.New("presence: gateway and boot id are required")
	}
	durations := map[*time.Duration]time.Duration{
		&c.AttemptTimeout: time.Second, &c.BackoffMin: 20 * time.Millisecond, &c.BackoffMax: 500 * time.Millisecond,
		&c.TouchInterval: 2 * time.Second, &c.ReconcileInterval: time.Second,
	}
	for p, d := range durations {
		if *p < 0 {
			return errors.New("presence: a negative duration")
		}
		if *p == 0 {
			*p = d
		}
	}
	counts := map[*int]int{&c.MaxAttempts: 32, &c.BatchSessions: 512, &c.MaxInFlight: 8, &c.UnregisterQueue: 1 << 18}
	for p, n := range counts {
		if *p < 0 {
			return errors.New("presence: a negative bound")
		}
		if *p == 0 {
			*p = n
		}
	}
	if c.BackoffMax < c.BackoffMin {
		return errors.New("presence: the longest back-off is below the shortest")
	}
	return nil
}
