package membership

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// BeaconInterval is the time between two beacons of a life.
const BeaconInterval = 500 * time.Millisecond

// Announcer publishes the beacons of one process life and answers its probe.
type Announcer struct {
	nc    *nats.Conn
	node  lifecycle.Node
	fill  func(*wirepb.Beacon)
	pulse chan struct{}
}

// NewAnnouncer makes the announcer of a life; nc is its control connection. fill adds what
// changes (state, sessions, slot claims) to each beacon, one call at a time; it must not block.
func NewAnnouncer(nc *nats.Conn, node lifecycle.Node, fill func(*wirepb.Beacon)) *Announcer {
	return &Announcer{nc: nc, node: node, fill: fill, pulse: make(chan struct{}, 1)}
}

// Pulse has a beacon sent now, after a change that others should not wait for. It never blocks.
func (a *Announcer) Pulse() {
	select {
	case a.pulse <- struct{}{}:
	default:
	}
}

// Run announces until ctx ends, then says "stopped": cancel it after everything else of the
// service has ended. It returns an error only when the probe cannot be subscribed to.
func (a *Announcer) Run(ctx context.Context) error { panic("body follows") }
