package directory

import (
	"fmt"
	"time"

	"github.com/switchyard-io/switchyard/shared/identity"
)

// Config bounds a Directory. A zero field means its default. Counts are for one hash slot,
// of which a cluster has 256.
type Config struct {
	// TTL is how long a route lives without a sign of life; default 180 s. It must exceed the
	// gateways' idle timeout plus the longest outage that should not cost a route.
	TTL time.Duration
	// CandidateTimeout is how long a registered session may stay uncommitted; default 15 s. It
	// must exceed the gateways' authentication timeout.
	CandidateTimeout time.Duration
	// TombstoneTTL is how long an unregistered session and a dead owner stay fenced; default
	// 60 s. It must exceed the longest deadline that a request carries (10 s) and the allowance
	// for clocks (5 s).
	TombstoneTTL time.Duration
	// ReplacedTTL is how long a session that was replaced, or lost with a silent owner, is
	// remembered in case the owner comes back; default 1 h. It should exceed the time for which
	// a gateway that is cut off is left running.
	ReplacedTTL time.Duration
	// RebuildWait is how long after Open a login that might meet an unreported session is
	// refused as unavailable rather than let in beside it (I1); default 2.5 s.
	RebuildWait time.Duration
	// MaxRoutes bounds active routes; default 262144. Register and Restore fail with ErrFull.
	MaxRoutes int
	// MaxUserRoutes bounds the active routes of one user; default 1024. Register and Commit
	// fail with ErrFull; Restore does not refuse a session that is already connected.
	MaxUserRoutes int
	// MaxCandidates bounds pending candidates; default 4096. Register fails with ErrFull.
	MaxCandidates int
	// MaxTombstones bounds tombstones, the replaced and lost sessions that are remembered, and
	// the offline events held back during a rebuild, each;
	// default 16384. The oldest goes first, and is counted.
	MaxTombstones int
	// MaxOwners bounds the gateway lives that have routes, are awaited or are fenced as gone;
	// default 4096. Register, Restore and Open fail with ErrFull.
	MaxOwners int
	// ExpireBatch bounds the routes that one Expire call removes; default 65536 (all slots
	// together). What is left is due at the next call.
	ExpireBatch int
	// Policy is the rule by which restored routes are judged; nil: PolicyDevice for every user.
	// It is called with a slot's mutex held: it must not block nor call the Directory.
	Policy func(identity.UID) Policy
}

func (c Config) withDefaults() Config {
	setDuration(&c.TTL, 180*time.Second)
	setDuration(&c.CandidateTimeout, 15*time.Second)
	setDuration(&c.TombstoneTTL, 60*time.Second)
	setDuration(&c.ReplacedTTL, time.Hour)
	setDuration(&c.RebuildWait, 2500*time.Millisecond)
	setCount(&c.MaxRoutes, 262144)
	setCount(&c.MaxUserRoutes, 1024)
	setCount(&c.MaxCandidates, 4096)
	setCount(&c.MaxTombstones, 16384)
	setCount(&c.MaxOwners, 4096)
	setCount(&c.ExpireBatch, 65536)
	if c.Policy == nil {
		c.Policy = func(identity.UID) Policy { return PolicyDevice }
	}
	return c
}

func setDuration(d *time.Duration, def time.Duration) {
	if *d == 0 {
		*d = def
	}
}

func setCount(n *int, def int) {
	if *n == 0 {
		*n = def
	}
}

func (c Config) validate() error {
	for _, f := range []struct {
		name string
		min  time.Duration
		v    time.Duration
	}{
		{"TTL", time.Second, c.TTL}, {"CandidateTimeout", time.Millisecond, c.CandidateTimeout},
		{"TombstoneTTL", time.Millisecond, c.TombstoneTTL}, {"RebuildWait", 0, c.RebuildWait},
		{"ReplacedTTL", time.Millisecond, c.ReplacedTTL},
	} {
		if f.v < f.min {
			return fmt.Errorf("directory: %s is %v, at least %v is needed", f.name, f.v, f.min)
		}
	}
	for _, f := range []struct {
		name string
		v    int
	}{
		{"MaxRoutes", c.MaxRoutes}, {"MaxUserRoutes", c.MaxUserRoutes}, {"MaxCandidates", c.MaxCandidates},
		{"MaxTombstones", c.MaxTombstones}, {"MaxOwners", c.MaxOwners}, {"ExpireBatch", c.ExpireBatch},
	} {
		if f.v < 1 || f.v > maxRecords {
			return fmt.Errorf("directory: %s is %d, not in 1..%d", f.name, f.v, maxRecords)
		}
	}
	return nil
}
