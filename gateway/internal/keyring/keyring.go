package keyring

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/ticket"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// ErrEmpty says that an answer had no usable key in it.
var ErrEmpty = errors.New("no public key in the answer")

// errNone is why a gateway without keys is not ready.
var errNone = errors.New("no ticket key fetched yet")

// Request asks for one reply; bind natsconn.Request to a connection.
type Request func(ctx context.Context, subject string, data []byte) (*nats.Msg, error)

// Config says when keys are fetched. A zero value takes the default.
type Config struct {
	// Interval between two fetches. Default 5 s.
	Interval time.Duration
	// Timeout of one fetch. Default 2 s.
	Timeout time.Duration
	// MinInterval is the least time between two fetches for unknown keys, so that forged tickets
	// cost ticketing nothing. Default 1 s.
	MinInterval time.Duration
	// RetryInterval is the pause after a fetch that failed while there are no keys at all.
	// Default 200 ms.
	RetryInterval time.Duration
}

func (c *Config) defaults() error {
	for p, d := range map[*time.Duration]time.Duration{
		&c.Interval: 5 * time.Second, &c.Timeout: 2 * time.Second,
		&c.MinInterval: time.Second, &c.RetryInterval: 200 * time.Millisecond,
	} {
		if *p < 0 {
			return errors.New("keyring: a negative duration")
		}
		if *p == 0 {
			*p = d
		}
	}
	return nil
}

// Keyring finds ticketing's public keys by id. It is a ticket.Keys.
type Keyring struct {
	cfg     Config
	request Request
	keys    atomic.Pointer[ticket.KeySet]
	unknown chan struct{} // capacity 1: a key was asked for that is not here

	mu      sync.Mutex
	changed chan struct{} // closed and replaced by each fetch that worked

	fetched, failed, misses atomic.Int64
}

var _ ticket.Keys = (*Keyring)(nil)

// New makes a Keyring without keys. Run fetches them.
func New(cfg Config, request Request) (*Keyring, error) {
	if err := cfg.defaults(); err != nil {
		return nil, err
	}
	return &Keyring{cfg: cfg, request: request, unknown: make(chan struct{}, 1), changed: make(chan struct{})}, nil
}

// Run fetches at once, each Interval, and soon after a miss, until ctx ends. Failures are counted
// and tried again; the keys at hand stay.
func (k *Keyring) Run(ctx context.Context) {
	for {
		started := time.Now()
		err := k.Fetch(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := k.cfg.Interval
		if err != nil && k.keys.Load() == nil {
			wait = k.cfg.RetryInterval
		}
		if !k.rest(ctx, started, wait) {
			return
		}
	}
}

// rest waits for the next fetch: for wait, or after a miss, but never less than MinInterval since
// the last one started.
func (k *Keyring) rest(ctx context.Context, started time.Time, wait time.Duration) bool {
	next := time.NewTimer(wait)
	defer next.Stop()
	select {
	case <-next.C:
		return true
	case <-ctx.Done():
		return false
	case <-k.unknown:
	}
	pause := time.NewTimer(k.cfg.MinInterval - time.Since(started))
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Fetch asks ticketing for its keys once, within Timeout, and takes them in place of those at hand.
func (k *Keyring) Fetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.Timeout)
	defer cancel()
	set, err := k.ask(ctx)
	if err != nil {
		k.failed.Add(1)
		return fmt.Errorf("fetch ticket keys: %w", err)
	}
	k.keys.Store(set)
	k.fetched.Add(1)
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.changed)
	k.changed = make(chan struct{})
	return nil
}

func (k *Keyring) ask(ctx context.Context) (*ticket.KeySet, error) {
	data, err := (&wirepb.KeysRequest{}).MarshalVT()
	if err != nil {
		return nil, err
	}
	msg, err := k.request(ctx, subject.TicketKeys, data)
	if err != nil {
		return nil, err
	}
	if e := fault.FromMsg(msg); e != nil {
		return nil, e
	}
	var reply wirepb.KeysReply
	if err := reply.UnmarshalVT(msg.Data); err != nil {
		return nil, err
	}
	set, err := ticket.ParseKeySet(reply.Jwks)
	if err != nil {
		return nil, err
	}
	if set.Len() == 0 {
		return nil, ErrEmpty
	}
	return set, nil
}

// Key returns the public key with that id. It never blocks; a miss has the keys fetched again,
// no more often than MinInterval.
func (k *Keyring) Key(kid string) (ed25519.PublicKey, bool) {
	if key, ok := k.keys.Load().Key(kid); ok {
		return key, true
	}
	k.misses.Add(1)
	k.miss()
	return nil, false
}

// Refresh waits for the next fetch that works, or until ctx ends: verify again after it when a
// ticket named an unknown key (ticket.ErrUnknownKey), for the key may be newer than the last fetch.
// Bound it well below the authentication deadline.
func (k *Keyring) Refresh(ctx context.Context) error {
	k.mu.Lock()
	changed := k.changed
	k.mu.Unlock()
	k.miss()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// miss asks for a fetch.
func (k *Keyring) miss() {
	select {
	case k.unknown <- struct{}{}:
	default:
	}
}

// Check is nil once keys have been fetched, else the reason why tickets cannot be verified.
func (k *Keyring) Check() error {
	if k.keys.Load() == nil {
		return errNone
	}
	return nil
}

// Stats are the fetches that worked and failed, and the keys that were asked for and not here.
type Stats struct{ Fetched, Failed, Misses int64 }

// Stats is a snapshot of the counters.
func (k *Keyring) Stats() Stats {
	return Stats{k.fetched.Load(), k.failed.Load(), k.misses.Load()}
}
