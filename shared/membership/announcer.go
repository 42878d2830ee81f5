package membership

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// BeaconInterval is the time between two beacons of a life.
const BeaconInterval = 500 * time.Millisecond

// farewellTimeout bounds the flush of the last beacon.
const farewellTimeout = 250 * time.Millisecond

// Announcer publishes the beacons of one process life and answers its probe.
type Announcer struct {
	nc    *nats.Conn
	node  lifecycle.Node
	fill  func(*wirepb.Beacon)
	pulse chan struct{}
	seq   uint64 // owned by Run
}

// NewAnnouncer makes the announcer of a life; nc is its control connection. fill adds what
// changes (state, sessions, slot claims) to each beacon, one call at a time; it must not block.
// nil: the life always says "ready".
func NewAnnouncer(nc *nats.Conn, node lifecycle.Node, fill func(*wirepb.Beacon)) *Announcer {
	return &Announcer{nc: nc, node: node, fill: fill, pulse: make(chan struct{}, 1)}
}

// Pulse has a beacon sent now, after a change that others should not wait for. It never blocks.
func (a *Announcer) Pulse() {
	select {
	case a.pulse <- struct{}{}:
	default: // one is due already
	}
}

// Run announces until ctx ends, then says "stopped": cancel it after everything else of the
// service has ended. It returns an error only when the probe cannot be subscribed to.
func (a *Announcer) Run(ctx context.Context) error {
	probe := subject.Probe(a.node.Service, a.node.ID, a.node.Boot)
	sub, err := a.nc.Subscribe(probe, func(m *nats.Msg) { _ = m.Respond(nil) })
	if err != nil {
		return fmt.Errorf("subscribe to the probe: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	tick := time.NewTicker(BeaconInterval)
	defer tick.Stop()
	for {
		a.publish("")
		select {
		case <-ctx.Done():
			a.publish(lifecycle.Stopped)
			_ = a.nc.FlushTimeout(farewellTimeout) // without it others find out by the probe
			return nil
		case <-tick.C:
		case <-a.pulse:
		}
	}
}

// publish sends one beacon. While the connection is away it fails, and the next one makes up for it.
func (a *Announcer) publish(final string) {
	a.seq++
	b := &wirepb.Beacon{
		Service: a.node.Service, NodeId: a.node.ID, BootId: a.node.Boot,
		State: lifecycle.Ready, Version: a.node.Version,
		StartedAtMs: a.node.StartedAt.UnixMilli(), Sequence: a.seq,
	}
	if final != "" {
		b.State = final
	} else if a.fill != nil {
		a.fill(b)
	}
	data, err := b.MarshalVT()
	if err != nil {
		return
	}
	_ = a.nc.Publish(subject.Beacon(a.node.Service, a.node.ID, a.node.Boot), data)
}
