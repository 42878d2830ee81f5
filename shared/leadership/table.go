package leadership

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/metric"

	"github.com/switchyard-io/switchyard/shared/membership"
	"github.com/switchyard-io/switchyard/shared/slot"
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

// Table knows the leader of every slot.
type Table struct{}

// NewTable makes an empty table; nc is the control connection. Run the tracker, too.
func NewTable(cfg TableConfig, layout slot.Layout, nc *nats.Conn, tracker *membership.Tracker) (*Table, error) {
	panic("body follows")
}

// Run keeps the table until ctx ends. It returns an error only when it cannot subscribe.
func (t *Table) Run(ctx context.Context) error { panic("body follows") }

// Layout is the cluster's.
func (t *Table) Layout() slot.Layout { panic("body follows") }

// Snapshot is the present state: one atomic load.
func (t *Table) Snapshot() *Snapshot { panic("body follows") }

// Changed is closed when the snapshot changes after this call. Take it, look at Snapshot, then wait.
func (t *Table) Changed() <-chan struct{} { panic("body follows") }

// Subscribe has f called for each change, one at a time and in order, from the table's goroutine.
// f must not block, and must not call Subscribe or cancel. Entries known already come first, with
// a zero old entry, from the caller's goroutine. After cancel returns f is not called any more.
func (t *Table) Subscribe(f func(id slot.ID, old, now Entry)) (cancel func()) { panic("body follows") }

// Staleness is the time since the bucket was last listed whole; the time since New before the first.
func (t *Table) Staleness() time.Duration { panic("body follows") }

// Synced reports whether the bucket was listed whole at least once.
func (t *Table) Synced() bool { panic("body follows") }

// Load is what a leader's beacons last said of a slot, by leader's own count; known is false when
// the present leader has said nothing yet.
func (t *Table) Load(id slot.ID) (l Load, known bool) { panic("body follows") }

// Load is the state of a led slot as its leader tells it.
type Load struct {
	Rebuilding bool
	Routes     uint64
}

// Snapshot is one immutable state of a Table.
type Snapshot struct {
	layout  slot.Layout
	entries []Entry
}

// Layout is the cluster's.
func (s *Snapshot) Layout() slot.Layout { return s.layout }

// Entry is the leadership of a slot; zero for an id outside the layout.
func (s *Snapshot) Entry(id slot.ID) Entry {
	if int(id) >= len(s.entries) {
		return Entry{}
	}
	return s.entries[id]
}

// Target is the fence for calls about a hash slot; false while nobody leads it.
func (s *Snapshot) Target(h slot.Hash) (slot.Target, bool) {
	id := s.layout.ID(h)
	e := s.entries[id]
	return e.Target(h, id), e.Led()
}
