package leadership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/metric"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// Loss says why a slot was lost.
type Loss string

// The losses.
const (
	// LossSuperseded: another node holds a higher term.
	LossSuperseded Loss = "superseded"
	// LossReleased: given away, by a drain or for balance.
	LossReleased Loss = "released"
	// LossStopped: the engine ended.
	LossStopped Loss = "stopped"
)

// Handler hears of slots won and lost: from one goroutine, in order. The calls must be quick.
type Handler interface {
	// Acquired: the node leads the slot at e.Term. Serving says so once the call has returned:
	// subscribe in it. fresh is true for a new term, whose directory starts empty; false
	// when the same term goes on after a time of uncertainty, with subscriptions and directory kept.
	Acquired(id slot.ID, e Entry, fresh bool)
	// Lost: Serving does not say so any more. Free what the slot held.
	Lost(id slot.ID, reason Loss)
}

// Releaser is a Handler that wants to know before a slot is given away.
type Releaser interface {
	// Releasing is called while the node still serves the slot: let requests that have arrived
	// finish, hand over. to is zero when nobody is there to take it. Bounded by ctx. Lost follows.
	Releasing(ctx context.Context, id slot.ID, e Entry, to Owner)
}

// EngineConfig of an Engine. Zero fields take the defaults.
type EngineConfig struct {
	// LeaseTTL of the node lease, whole seconds, at least 2 s. Default 15 s.
	LeaseTTL time.Duration
	// RenewEvery is the time between renewals. Default 3 s.
	RenewEvery time.Duration
	// PulseGrace is how long ago the control connection may last have answered. Default 1.25 s:
	// less than the 1.5 s of missing beacons that let others take over.
	PulseGrace time.Duration
	// StableFor is how long the set of eligible nodes must not have changed before a slot moves
	// for balance. Default 2 s.
	StableFor time.Duration
	// ReleaseTimeout bounds each Releasing. Default 2 s.
	ReleaseTimeout time.Duration
	// Log gets claims and losses. nil: dropped.
	Log *slog.Logger
	// Meter counts them. nil: none.
	Meter metric.Meter
	// Pulse has a beacon sent after a change, see membership.Announcer. nil: nothing.
	Pulse func()
}

// ErrConfig is wrapped by what NewEngine refuses.
var ErrConfig = errors.New("leadership configuration")

func (c EngineConfig) withDefaults() (EngineConfig, error) {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.LeaseTTL, 15*time.Second)
	set(&c.RenewEvery, 3*time.Second)
	set(&c.PulseGrace, 1250*time.Millisecond)
	set(&c.StableFor, 2*time.Second)
	set(&c.ReleaseTimeout, 2*time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Pulse == nil {
		c.Pulse = func() {}
	}
	if c.LeaseTTL < 2*time.Second || c.LeaseTTL%time.Second != 0 {
		return c, fmt.Errorf("%w: a lease lasts whole seconds, at least 2, not %s", ErrConfig, c.LeaseTTL)
	}
	if c.RenewEvery <= 0 || c.RenewEvery > c.LeaseTTL/2 {
		return c, fmt.Errorf("%w: a lease of %s cannot be renewed each %s", ErrConfig, c.LeaseTTL, c.RenewEvery)
	}
	if c.PulseGrace <= 0 || c.StableFor < 0 || c.ReleaseTimeout <= 0 {
		return c, fmt.Errorf("%w: durations must be positive", ErrConfig)
	}
	return c, nil
}

// Engine claims, keeps and gives away the slots of one node.
type Engine struct {
	cfg     EngineConfig
	self    Owner
	service string
	nc      *nats.Conn
	table   *Table
	handler Handler
	bucket  bucket
	lease   *lease
	counts  *engineCounters
	rules   rules

	draining atomic.Bool
	running  atomic.Bool
	joined   atomic.Bool              // the view of the cluster has been settled once
	tenures  []atomic.Pointer[tenure] // written by Run only
	pending  atomic.Int64             // releases that are not stored yet
	wakeup   chan struct{}
}

// tenure is one leadership of this life. It may be served while reconnects and lapses are still
// the connection's and the lease's own: else something may have happened since it was confirmed.
type tenure struct {
	entry      Entry
	reconnects uint64
	lapses     uint64
}

// NewEngine makes the engine of a node; nc is its control connection, and the one whose loss makes
// others take over. The table and its tracker must run, and the node must be announced with Claims.
func NewEngine(cfg EngineConfig, node lifecycle.Node, nc *nats.Conn, table *Table, h Handler) (*Engine, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if !identity.ValidNode(node.ID) || !identity.ValidNode(node.Boot) {
		return nil, fmt.Errorf("%w: node %q, boot %q", ErrConfig, node.ID, node.Boot)
	}
	e := &Engine{
		cfg: cfg, self: Owner{node.ID, node.Boot}, service: node.Service, nc: nc, table: table, handler: h,
		bucket: table.bucket, tenures: make([]atomic.Pointer[tenure], table.layout.Logical),
		wakeup: make(chan struct{}, 1),
		rules:  rules{stableFor: cfg.StableFor, heirFor: heirFor, turnFor: turnFor},
	}
	e.lease = newLease(cfg, nc, e.self, e.wake)
	e.counts = newEngineCounters(cfg.Meter, e)
	e.lease.counts = func(err error) { count(e.counts.renewals, "result", result(err)) }
	return e, nil
}

// wake has Run look at everything soon.
func (e *Engine) wake() {
	select {
	case e.wakeup <- struct{}{}:
	default:
	}
}

// Run leads until ctx ends; then every slot still held is lost, and not released: Drain first.
func (e *Engine) Run(ctx context.Context) error {
	if !e.running.CompareAndSwap(false, true) {
		return fmt.Errorf("%w: the engine runs already", ErrConfig)
	}
	defer e.running.Store(false)
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { e.lease.keep(ctx) })
	wg.Go(func() { e.lease.beat(ctx) })
	s := newSteward(e)
	defer s.close()
	s.run(ctx)
	return nil
}

// Serving reports whether the node may answer for the slot at this moment, and at which term. Ask
// for each request, and again before an answer that must not come from an old directory. Lock-free
// but for the connection's counters; for many slots at once see Moment.
func (e *Engine) Serving(id slot.ID) (Entry, bool) { return e.Moment().Serving(id) }

// Moment is what the node may answer for at one moment. Use it within one batch, and let it go.
type Moment struct {
	e          *Engine
	table      *Snapshot
	certain    bool
	reconnects uint64
	lapses     uint64
}

// Moment looks at the lease, the connection and the table once, for all slots of a batch. The
// deadline is read before lapses, and written after.
func (e *Engine) Moment() Moment {
	now := e.lease.now()
	return Moment{
		e: e, certain: e.lease.heldAt(now) && e.lease.beatingAt(now), lapses: e.lease.lapses.Load(),
		reconnects: e.nc.Stats().Reconnects, table: e.table.Snapshot(),
	}
}

// Serving is Engine.Serving at that moment: a few atomic loads.
func (m Moment) Serving(id slot.ID) (Entry, bool) {
	if int(id) >= len(m.e.tenures) {
		return Entry{}, false
	}
	t := m.e.tenures[id].Load()
	if t == nil || !m.proves(t) || m.table.entries[id].Newer(t.entry) { // superseded: Run will say so
		return Entry{}, false
	}
	return t.entry, true
}

// proves reports whether nothing has happened since t was confirmed by which another node could
// have taken its slot.
func (m Moment) proves(t *tenure) bool {
	return m.certain && m.lapses == t.lapses && m.reconnects == t.reconnects
}

// certain is proves at this moment.
func (e *Engine) certain(t *tenure) bool { return e.Moment().proves(t) }

// Held reports whether the node leads the slot as far as it knows, be it uncertain now.
func (e *Engine) Held(id slot.ID) (Entry, bool) {
	if int(id) < len(e.tenures) {
		if t := e.tenures[id].Load(); t != nil {
			return t.entry, true
		}
	}
	return Entry{}, false
}

func (e *Engine) heldCount() int {
	n := 0
	for i := range e.tenures {
		if e.tenures[i].Load() != nil {
			n++
		}
	}
	return n
}

func (e *Engine) servingCount() int {
	n, m := 0, e.Moment()
	for id := range e.tenures {
		if _, ok := m.Serving(slot.ID(id)); ok {
			n++
		}
	}
	return n
}

// Claims adds the slots held to a beacon: see membership.NewAnnouncer. The caller may then fill in
// what each holds.
func (e *Engine) Claims(b *wirepb.Beacon) {
	b.Eligible = e.eligible()
	for id := range e.tenures {
		if t := e.tenures[id].Load(); t != nil {
			b.Slots = append(b.Slots, &wirepb.SlotClaim{
				SlotId: uint32(id), Term: t.entry.Term, ConfigEpoch: t.entry.ConfigEpoch,
			})
		}
	}
}

// eligible reports whether this node may claim, once its view of the cluster is settled. Nodes that
// start together say so before, or the first whose view is settled would take all slots.
func (e *Engine) eligible() bool {
	return e.running.Load() && !e.draining.Load() && e.lease.remaining() > 0
}

// settled reports whether the view of the cluster is meaningful.
func (e *Engine) settled() bool { return e.table.tracker.Settled() && e.table.Synced() }

// Check is nil while the node lease is held, the control connection answers and the view of the
// cluster has been settled, else the reason for readyz.
func (e *Engine) Check() error {
	switch {
	case !e.running.Load():
		return errors.New("leadership: not running")
	case e.lease.remaining() <= 0:
		return errors.New("leadership: node lease not held")
	case !e.lease.beating():
		return errors.New("leadership: control connection does not answer")
	case !e.joined.Load():
		return errors.New("leadership: view of the cluster not settled yet")
	}
	return nil
}

// drainPoll is how often Drain looks.
const drainPoll = 10 * time.Millisecond

// Drain gives all slots away and claims none any more. It returns when none is held and every
// release is stored, or with ctx's error.
func (e *Engine) Drain(ctx context.Context) error {
	e.draining.Store(true)
	e.cfg.Pulse()
	e.wake()
	for e.heldCount() > 0 || e.pending.Load() > 0 {
		if !e.running.Load() {
			return errors.New("leadership: not running")
		}
		if !pause(ctx, drainPoll) {
			return fmt.Errorf("drain: %d slots held: %w", e.heldCount(), ctx.Err())
		}
	}
	return nil
}

// Undrain makes the node claim again.
func (e *Engine) Undrain() {
	e.draining.Store(false)
	e.cfg.Pulse()
	e.wake()
}
