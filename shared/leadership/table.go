package leadership

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/metric"

	"github.com/switchyard-io/switchyard/shared/membership"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
)

// TableConfig of a Table. Zero fields take the defaults.
type TableConfig struct {
	// Service whose beacons carry the claims. Default "authority".
	Service string
	// ListEvery is the time between two listings of the bucket. Default 5 s.
	ListEvery time.Duration
	// Log gets listings that fail. nil: dropped.
	Log *slog.Logger
	// Meter counts changes and gaps. nil: none.
	Meter metric.Meter
}

const (
	defaultService = "authority"
	defaultList    = 5 * time.Second
	listTimeout    = time.Second
	// listSpacing keeps listings that gaps ask for from following each other too closely.
	listSpacing = 100 * time.Millisecond
	// watchEvery is how often the table looks whether its connection was away.
	watchEvery = 50 * time.Millisecond
	// changeQueue bounds the changes that wait. What does not fit is found by the next listing.
	changeQueue = 4096
)

// Table knows the leader of every slot.
type Table struct {
	cfg     TableConfig
	layout  slot.Layout
	nc      *nats.Conn
	tracker *membership.Tracker
	bucket  bucket
	counts  *tableCounters
	made    time.Time

	state  atomic.Pointer[tableState]
	listed atomic.Int64 // when the last listing began, since made; 0: none yet
	loads  []atomic.Pointer[claim]
	offers chan offer // claims of beacons and of the engine, for Run

	// emitMu serialises changes and what subscribers hear of them.
	emitMu  sync.Mutex
	nextSub int
	subs    map[int]func(id slot.ID, old, now Entry)
}

// tableState is a snapshot and what is closed when it is not the newest any more.
type tableState struct {
	snap *Snapshot
	next chan struct{}
}

// claim is what a beacon says of a slot.
type claim struct {
	entry Entry
	load  Load
}

type offer struct {
	id    slot.ID
	entry Entry
	feed  string
}

// NewTable makes an empty table; nc is the control connection. Run the tracker, too.
func NewTable(cfg TableConfig, layout slot.Layout, nc *nats.Conn, tracker *membership.Tracker) (*Table, error) {
	if err := layout.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLayout, err)
	}
	if cfg.Service == "" {
		cfg.Service = defaultService
	}
	if cfg.ListEvery <= 0 {
		cfg.ListEvery = defaultList
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	t := &Table{
		cfg: cfg, layout: layout, nc: nc, tracker: tracker, bucket: bucket{nc, subject.BucketSlots},
		made: time.Now(), loads: make([]atomic.Pointer[claim], layout.Logical),
		offers: make(chan offer, changeQueue), subs: map[int]func(slot.ID, Entry, Entry){},
	}
	t.counts = newTableCounters(cfg.Meter, t)
	t.state.Store(&tableState{
		snap: &Snapshot{layout: layout, entries: make([]Entry, layout.Logical)}, next: make(chan struct{}),
	})
	return t, nil
}

// Run keeps the table until ctx ends. It returns an error only when it cannot subscribe.
func (t *Table) Run(ctx context.Context) error {
	changes := make(chan *nats.Msg, changeQueue)
	sub, err := t.nc.ChanSubscribe(subject.TableSlotsAll, changes)
	if err != nil {
		return fmt.Errorf("subscribe to slot changes: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	defer t.tracker.Subscribe(t.beacon)()

	lists := newLister(t)
	defer lists.wait()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	lists.due(time.Now())
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-changes:
			t.changed(m, lists)
		case o := <-t.offers:
			t.apply(o.id, o.entry, o.feed)
		case r := <-lists.results:
			t.take(r, lists)
		case now := <-tick.C:
			lists.tick(ctx, now)
		}
	}
}

// changed takes in a republished change. Sequences without a gap show that none was missed.
func (t *Table) changed(m *nats.Msg, lists *lister) {
	if lists.gap(m) {
		t.counts.gap()
		lists.due(time.Now())
	}
	id, ok := subject.ParseTableSlot(m.Subject)
	if !ok || len(m.Data) == 0 { // a marker: no record is ever deleted on purpose
		return
	}
	e, err := decodeEntry(m.Data, sequenceOf(m))
	if err != nil {
		t.cfg.Log.Warn("slot record not understood", "slot_id", int(id), "error", err)
		return
	}
	t.apply(id, e, feedChange)
}

// beacon takes in the claims of a leader, on the tracker's goroutine.
func (t *Table) beacon(ev membership.Event) {
	if ev.Kind == membership.Left || ev.Node.Service != t.cfg.Service {
		return
	}
	snap := t.Snapshot()
	for _, c := range ev.Beacon.Slots {
		if int(c.SlotId) >= t.layout.Logical || c.Term == 0 || c.ConfigEpoch == 0 {
			continue
		}
		id := slot.ID(c.SlotId)
		e := Entry{Leader: Owner{ev.Node.ID, ev.Node.Boot}, Term: c.Term, ConfigEpoch: c.ConfigEpoch}
		t.loads[id].Store(&claim{e, Load{c.Rebuilding, c.Routes}})
		if e.Newer(snap.entries[id]) {
			t.offer(id, e, feedBeacon)
		}
	}
}

// offer has Run look at an entry. It never blocks.
func (t *Table) offer(id slot.ID, e Entry, feed string) {
	select {
	case t.offers <- offer{id, e, feed}:
	default: // the next beacon or listing says it again
	}
}

// take applies a listing.
func (t *Table) take(r listing, lists *lister) {
	lists.done(r)
	if r.err != nil {
		t.cfg.Log.Warn("slot bucket could not be listed", "error", r.err)
		return
	}
	for _, l := range r.entries {
		t.apply(l.id, l.entry, feedList)
	}
	t.listed.Store(int64(r.began.Sub(t.made)))
}

// apply makes an entry the slot's if it supersedes the present one.
func (t *Table) apply(id slot.ID, e Entry, feed string) {
	if int(id) >= t.layout.Logical {
		return
	}
	t.emitMu.Lock()
	defer t.emitMu.Unlock()
	cur := t.state.Load()
	old := cur.snap.entries[id]
	newer := e.Newer(old)
	fresher := e.sameLeadership(old) && e.Revision > old.Revision
	if !newer && !fresher {
		return
	}
	entries := append([]Entry(nil), cur.snap.entries...)
	entries[id] = e
	t.state.Store(&tableState{snap: &Snapshot{layout: t.layout, entries: entries}, next: make(chan struct{})})
	close(cur.next)
	if !newer {
		return // a later revision of the same leadership is no change for anybody
	}
	t.counts.change(feed)
	for _, f := range t.subs {
		f(id, old, e)
	}
}

// Layout is the cluster's.
func (t *Table) Layout() slot.Layout { return t.layout }

// Snapshot is the present state: one atomic load.
func (t *Table) Snapshot() *Snapshot { return t.state.Load().snap }

// Changed is closed when the snapshot changes after this call. Take it, look at Snapshot, then wait.
func (t *Table) Changed() <-chan struct{} { return t.state.Load().next }

// Subscribe has f called for each change, one at a time and in order, from the table's goroutine.
// f must not block, and must not call Subscribe or cancel. Entries known already come first, with
// a zero old entry, from the caller's goroutine. After cancel returns f is not called any more.
func (t *Table) Subscribe(f func(id slot.ID, old, now Entry)) (cancel func()) {
	t.emitMu.Lock()
	defer t.emitMu.Unlock()
	for id, e := range t.Snapshot().entries {
		if e.Term > 0 {
			f(slot.ID(id), Entry{}, e)
		}
	}
	n := t.nextSub
	t.nextSub++
	t.subs[n] = f
	return func() {
		t.emitMu.Lock()
		defer t.emitMu.Unlock()
		delete(t.subs, n)
	}
}

// Staleness is the time since the bucket was last listed whole; the time since New before the first.
func (t *Table) Staleness() time.Duration { return time.Since(t.made) - time.Duration(t.listed.Load()) }

// Synced reports whether the bucket was listed whole at least once.
func (t *Table) Synced() bool { return t.listed.Load() != 0 }

// Load is what the present leader of a slot last said of it; known is false when it has said
// nothing yet.
func (t *Table) Load(id slot.ID) (l Load, known bool) {
	if int(id) >= t.layout.Logical {
		return Load{}, false
	}
	c := t.loads[id].Load()
	if c == nil || !c.entry.sameLeadership(t.Snapshot().entries[id]) {
		return Load{}, false
	}
	return c.load, true
}

// Load is the state of a led slot as its leader tells it.
type Load struct {
	Rebuilding bool
	Routes     uint64
}
