package natsconn

import (
	"context"
	"log/slog"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/metric"
)

// Conns are the two connections of one service life.
type Conns struct {
	// Control carries leases, beacons and fences. It pings each second, notices a hung server
	// within 3 s, and buffers nothing while it is away: a publish fails at once instead.
	Control *nats.Conn
	// Data carries calls, pushes and micro endpoints.
	Data *nats.Conn
}

// Open connects both under the name given (as servers list it), and retries until ctx ends. Once
// open, they reconnect for ever.
func Open(ctx context.Context, cfg Config, name string, log *slog.Logger) (*Conns, error) {
	panic("body follows")
}

// Check is nil while both are connected, else an error that says which is not.
func (c *Conns) Check() error { panic("body follows") }

// Observe registers what the connections count with the meter.
func (c *Conns) Observe(m metric.Meter) error { panic("body follows") }

// Close drains both, at most DrainTimeout, and closes them. Further calls do nothing.
func (c *Conns) Close() { panic("body follows") }
