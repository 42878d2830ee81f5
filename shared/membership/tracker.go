package membership

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/metric"
)

// Config of a Tracker. Zero fields take the defaults.
type Config struct {
	// GoneAfter is how long beacons must be missing before "no responders" counts. Default 1.5 s,
	// three beacons.
	GoneAfter time.Duration
	// GatewayGoneAfter is GoneAfter for gateways: what a wrong verdict costs there (every route
	// of the gateway) is more than a moment's delay. Default 2.25 s.
	GatewayGoneAfter time.Duration
	// HangTimeout is how long a life may be silent whose probes time out. Default 16 s.
	HangTimeout time.Duration
	// ReconnectGrace is how long nobody is declared gone after a reconnect of our own. Default 4 s.
	ReconnectGrace time.Duration
	// MaxNodes bounds the lives known at a time; further ones are ignored and counted. Default 1024.
	MaxNodes int
	// Log gets joins and leaves. nil: dropped.
	Log *slog.Logger
	// Meter counts them. nil: none.
	Meter metric.Meter
}

// Tracker is a view of all live nodes.
type Tracker struct{}

// NewTracker makes a tracker that hears beacons on nc, the control connection.
func NewTracker(nc *nats.Conn, cfg Config) *Tracker { panic("body follows") }

// Run tracks until ctx ends. It returns an error only when beacons cannot be subscribed to.
func (t *Tracker) Run(ctx context.Context) error { panic("body follows") }

// Nodes are all lives that are not gone, by service, id and boot.
func (t *Tracker) Nodes() []Node { panic("body follows") }

// Live are the lives of a service that are not gone, by id and boot; silent ones are among them.
func (t *Tracker) Live(service string) []Node { panic("body follows") }

// Alive reports whether the life is known and not gone.
func (t *Tracker) Alive(service, node, boot string) bool { panic("body follows") }

// Status says what is known of a life.
func (t *Tracker) Status(service, node, boot string) Status { panic("body follows") }

// Suspect has a life probed that others speak of and this tracker never heard; its Status becomes
// Quiet, and then what the probes say. Does nothing for a life that is known.
func (t *Tracker) Suspect(service, node, boot string) { panic("body follows") }

// Settled reports whether the tracker has listened for three beacon intervals since it started or
// reconnected, so that Live is meaningful.
func (t *Tracker) Settled() bool { panic("body follows") }

// Subscribe has f called for each event, one at a time and in order, from the tracker's goroutine.
// f must not block and must not call Subscribe or cancel. Lives known already come first, as Joined,
// from the caller's goroutine. After cancel returns f is not called any more.
func (t *Tracker) Subscribe(f func(Event)) (cancel func()) { panic("body follows") }
