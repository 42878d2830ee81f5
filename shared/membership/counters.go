package membership

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// counters log and count what a Tracker sees.
type counters struct {
	log     *slog.Logger
	joined  metric.Int64Counter
	left    metric.Int64Counter
	dropped metric.Int64Counter
}

func newCounters(cfg Config) *counters {
	m := cfg.Meter
	if m == nil {
		m = noop.Meter{}
	}
	c := &counters{log: cfg.Log}
	// The names are constants of this file: a refusal would be a fault of the meter, and the noop
	// instrument that comes with it is good enough.
	c.joined, _ = m.Int64Counter("membership.joined", metric.WithDescription("lives heard for the first time, or again"))
	c.left, _ = m.Int64Counter("membership.left", metric.WithDescription("lives declared gone, by reason"))
	c.dropped, _ = m.Int64Counter("membership.beacons.ignored", metric.WithDescription("beacons ignored, by reason"))
	return c
}

func (c *counters) ignored(reason string) {
	c.dropped.Add(context.Background(), 1, metric.WithAttributes(attribute.String("reason", reason)))
}

func (c *counters) event(ev Event) {
	peer := []any{"peer_service", ev.Node.Service, "peer", ev.Node.ID, "peer_boot", ev.Node.Boot}
	ctx, by := context.Background(), attribute.String("peer_service", ev.Node.Service)
	switch ev.Kind {
	case Joined:
		c.joined.Add(ctx, 1, metric.WithAttributes(by))
		c.log.Debug("node joined", append(peer, "version", ev.Node.Version)...)
	case Left:
		c.left.Add(ctx, 1, metric.WithAttributes(by, attribute.String("reason", string(ev.Reason))))
		c.log.Info("node left", append(peer, "reason", string(ev.Reason))...)
	case Beaconed:
	}
}
