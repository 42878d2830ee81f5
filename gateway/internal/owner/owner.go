package owner

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/deadline"
	"github.com/switchyard-io/switchyard/shared/subject"
)

// Owner serves what is addressed to this life of this gateway.
type Owner struct {
	cfg      Config
	nc       *nats.Conn
	sessions Sessions
	groups   *Groups
	acks     acks
	counts   counts
	late     *deadline.Guard

	// arrivals has group pushes and syncs in the order of arrival: all of their subscriptions
	// feed it, and one goroutine drains it, so a sync is handled after the push before it.
	arrivals chan *nats.Msg
	waits    groupWaits

	mu      sync.Mutex
	subs    []*nats.Subscription
	quit    chan struct{}
	loop    sync.WaitGroup
	stopped bool
}

// counts are what the endpoints count; instruments read them.
type counts struct {
	queued, overflow, stale, parked, expired atomic.Int64
	acked, ackTimeouts, ackRefused           atomic.Int64
	batches, malformed, misdirected          atomic.Int64
	actions, closed, gone                    atomic.Int64
	groupPushes, groupSyncs, dropped         atomic.Int64
	lost                                     atomic.Int64
}

// New makes the endpoints on a connection for bulk data. It subscribes to nothing: Start does.
func New(cfg Config, nc *nats.Conn, sessions Sessions) (*Owner, error) {
	if err := cfg.defaults(); err != nil {
		return nil, err
	}
	o := &Owner{
		cfg: cfg, nc: nc, sessions: sessions, late: deadline.NewGuard(cfg.Log),
		arrivals: make(chan *nats.Msg, cfg.GroupQueue),
		quit:     make(chan struct{}),
	}
	o.acks.max = int64(cfg.MaxAckWaits)
	o.waits.pushes = make(map[waitKey]*ackSet)
	o.groups = newGroups(cfg, func(name string) (subscription, error) {
		return nc.ChanSubscribe(subject.Group(name), o.arrivals)
	}, &o.counts)
	return o, nil
}

// Groups keeps the group members of this gateway. It can be used before Start.
func (o *Owner) Groups() *Groups { return o.groups }

// Start subscribes and serves until Stop. When it returns nil the server knows the
// subscriptions. Call it once.
func (o *Owner) Start() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for op, handle := range map[subject.OwnerOp]nats.MsgHandler{
		subject.OwnerPush: o.onPush, subject.OwnerAction: o.onAction,
	} {
		sub, err := o.nc.Subscribe(subject.Owner(o.cfg.Gateway, o.cfg.Boot, op), handle)
		if err != nil {
			return fmt.Errorf("subscribe to owner %s: %w", op, err)
		}
		o.subs = append(o.subs, sub)
		if err := sub.SetPendingLimits(o.cfg.PendingMessages, o.cfg.PendingBytes); err != nil {
			return fmt.Errorf("bound owner %s: %w", op, err)
		}
	}
	sub, err := o.nc.ChanSubscribe(subject.GatewaysGroupSync, o.arrivals)
	if err != nil {
		return fmt.Errorf("subscribe to group syncs: %w", err)
	}
	o.subs = append(o.subs, sub)
	o.loop.Go(o.runGroups)
	if err := o.nc.FlushTimeout(flushTimeout); err != nil {
		return fmt.Errorf("subscribe as owner: %w", err)
	}
	return nil
}

// Stop takes nothing more in and returns when the group handler has ended. Batches that the
// server has handed over already are still served, for as long as the connection lives.
func (o *Owner) Stop() {
	o.mu.Lock()
	if o.stopped {
		o.mu.Unlock()
		return
	}
	o.stopped = true
	for _, sub := range o.subs {
		if sub.Type() == nats.ChanSubscription {
			_ = sub.Unsubscribe()
			continue
		}
		_ = sub.Drain()
	}
	close(o.quit)
	o.mu.Unlock()
	o.groups.stop()
	o.loop.Wait()
}

// Dropped is the number of messages that did not fit what waits for the handlers.
func (o *Owner) Dropped() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.counts.dropped.Load() + o.groups.dropped()
	for _, sub := range o.subs {
		if d, err := sub.Dropped(); err == nil {
			n += int64(d)
		}
	}
	return n
}
