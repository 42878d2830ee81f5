package leadership

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/subject"
)

const (
	renewTimeout = 2 * time.Second
	renewRetry   = 250 * time.Millisecond
	// pulseEvery is the time between two pings of the control connection.
	pulseEvery = 250 * time.Millisecond
	// farewell bounds the last write of a node that ends.
	farewell = time.Second
)

// lease keeps this life's key in SY_NODES and this life's idea of how long it may be trusted.
//
// The deadline counts from before the renewal was sent, by the monotonic clock, and ends before the
// key can expire: whoever finds the key expired finds a life that refuses already. The pulse
// covers the other way to be taken for gone, "no responders": a life whose connection was cut does
// not get its ping answered, and refuses before the others may judge. (A process that wakes from a
// pause refuses at once by the same rule.)
type lease struct {
	cfg    EngineConfig
	nc     *nats.Conn
	bucket bucket
	self   Owner
	base   time.Time
	wake   func() // after the first renewal, and after a lapse
	counts func(err error)

	deadline atomic.Int64 // since base
	lapses   atomic.Uint64
	pulse    atomic.Int64 // since base: when the last answered ping was sent

	// Owned by renewing.
	seq uint64
	n   uint64
}

func (l *lease) now() int64 { return int64(time.Since(l.base)) }

func (l *lease) heldAt(now int64) bool { return now < l.deadline.Load() }

func (l *lease) beatingAt(now int64) bool {
	p := l.pulse.Load()
	return p != 0 && now-p < int64(l.cfg.PulseGrace)
}

// remaining is how long the lease still holds; not positive: it does not.
func (l *lease) remaining() time.Duration { return time.Duration(l.deadline.Load() - l.now()) }

// beating reports whether the control connection answered a moment ago.
func (l *lease) beating() bool { return l.beatingAt(l.now()) }

// margin is by how much the deadline comes before the key's expiry.
func (l *lease) margin() time.Duration { return l.cfg.LeaseTTL / 15 }

// leaseKey is the key of a life: a restarted node never meets its former life's lease.
func leaseKey(o Owner) string { return o.Node + "." + o.Boot }

type leaseValue struct {
	Node     string `json:"node_id"`
	Boot     string `json:"boot_id"`
	Renewals uint64 `json:"renewals"`
}

// keep renews until ctx ends, and then gives the lease up.
func (l *lease) keep(ctx context.Context) {
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		l.deadline.Store(0)
		l.bucket.purge(bye, leaseKey(l.self))
	}()
	for {
		wait := l.cfg.RenewEvery
		if err := l.renew(ctx); err != nil {
			wait = renewRetry
			if errors.Is(err, errConflict) {
				wait = 0 // the sequence has been read again
			}
		}
		if !pause(ctx, wait) {
			return
		}
	}
}

// renew tries once. After a conflict or an unknown result the next attempt goes on from what is stored.
func (l *lease) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	sent := l.now()
	l.n++
	data, err := json.Marshal(leaseValue{l.self.Node, l.self.Boot, l.n})
	if err != nil {
		return err
	}
	seq, err := l.bucket.put(ctx, leaseKey(l.self), data, l.seq, l.cfg.LeaseTTL)
	l.counts(err)
	if errors.Is(err, errConflict) {
		// An earlier attempt that timed out was done after all, or the lease ran out.
		v, rerr := l.bucket.get(ctx, leaseKey(l.self))
		if rerr != nil {
			return rerr
		}
		if v.seq == l.seq {
			return errUnavailable // not settled yet: try again, but not in a rush
		}
		l.seq = v.seq
		return err
	}
	if err != nil {
		return err
	}
	l.seq = seq
	old := l.deadline.Load()
	lapsed := l.now() >= old
	if lapsed {
		l.lapses.Add(1) // before the deadline: see Engine.certain
	}
	l.deadline.Store(sent + int64(l.cfg.LeaseTTL-l.margin()))
	if lapsed {
		l.wake()
	}
	return nil
}

// beat pings until ctx ends.
func (l *lease) beat(ctx context.Context) {
	for {
		if l.nc.IsConnected() {
			sent := l.now()
			if l.nc.FlushTimeout(l.cfg.PulseGrace) == nil {
				l.pulse.Store(max(sent, 1))
			}
		}
		if !pause(ctx, pulseEvery) {
			return
		}
	}
}

// pause waits; false: ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func newLease(cfg EngineConfig, nc *nats.Conn, self Owner, wake func()) *lease {
	return &lease{
		cfg: cfg, nc: nc, bucket: bucket{nc, subject.BucketNodes}, self: self, base: time.Now(), wake: wake,
		counts: func(error) {},
	}
}
