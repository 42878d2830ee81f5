package leadership

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/metric"

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
	// when the same term goes on after a time of uncertainty, with the directory kept.
	Acquired(id slot.ID, e Entry, fresh bool)
	// Lost: Serving does not say so any more. Free what the slot held.
	Lost(id slot.ID, reason Loss)
}

// Releaser is a Handler that wants to know before a slot is given away.
type Releaser interface {
	// Releasing is called while the node still serves the slot: let requests that have arrived
	// finish, hand over. to is zero when nobody is there to take it. Bounded by ctx.
	Releasing(ctx context.Context, id slot.ID, e Entry, to Owner)
}

// EngineConfig of an Engine. Zero fields take the defaults.
type EngineConfig struct {
	// LeaseTTL of the node lease, whole seconds. Default 15 s.
	LeaseTTL time.Duration
	// RenewEvery is the time between renewals. Default 3 s.
	RenewEvery time.Duration
	// PulseGrace is how long ago the control connection may last have answered. Default 1.25 s:
	// less than the 1.5 s of missing beacons that let others take over.
	PulseGrace time.Duration
	// StableFor is how long the set of live nodes must not have changed before a slot moves for
	// balance. Default 2 s.
	StableFor time.Duration
	// Log gets claims and losses. nil: dropped.
	Log *slog.Logger
	// Meter counts them. nil: none.
	Meter metric.Meter
	// Pulse has a beacon sent after a change, see membership.Announcer. nil: nothing.
	Pulse func()
}

// Engine claims, keeps and gives away the slots of one node.
type Engine struct{}

// NewEngine makes the engine of a node; nc is its control connection, and the one whose loss makes
// others take over. The table and its tracker must run, and the node must be announced with Claims.
func NewEngine(cfg EngineConfig, node lifecycle.Node, nc *nats.Conn, table *Table, h Handler) (*Engine, error) {
	panic("body follows")
}

// Run leads until ctx ends; then every slot still held is lost, and not released: Drain first.
func (e *Engine) Run(ctx context.Context) error { panic("body follows") }

// Serving reports whether the node may answer for the slot at this moment, and at which term. Ask
// for each request, and again before an answer that must not come from an old directory. Lock-free
// but for the connection's counters.
func (e *Engine) Serving(id slot.ID) (Entry, bool) { panic("body follows") }

// Held reports whether the node leads the slot as far as it knows, be it uncertain now.
func (e *Engine) Held(id slot.ID) (Entry, bool) { panic("body follows") }

// Claims adds the slots held to a beacon: see membership.NewAnnouncer. The caller may then fill in
// what each holds.
func (e *Engine) Claims(b *wirepb.Beacon) { panic("body follows") }

// Check is nil while the node lease is held and the control connection answers.
func (e *Engine) Check() error { panic("body follows") }

// Drain gives all slots away and claims none any more. It returns when none is held, or with ctx's error.
func (e *Engine) Drain(ctx context.Context) error { panic("body follows") }

// Undrain makes the node claim again.
func (e *Engine) Undrain() { panic("body follows") }
