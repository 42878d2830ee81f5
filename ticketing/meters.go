package ticketing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard-io/switchyard/shared/telemetry"
)

const scope = "github.com/switchyard-io/switchyard/ticketing"

// meters counts what ticketing does, by outcome (a fixed few each).
type meters struct {
	issues, redeems, releases, late metric.Int64Counter
	tracer                          trace.Tracer
}

func newMeters(tel *telemetry.Telemetry) (*meters, error) {
	m := &meters{tracer: tel.Tracer(scope)}
	meter := tel.Meter(scope)
	for _, c := range []struct {
		to         *metric.Int64Counter
		name, desc string
	}{
		{&m.issues, "switchyard.ticketing.issues", "login tickets asked for, by outcome"},
		{&m.redeems, "switchyard.ticketing.redeems", "tickets presented, by outcome"},
		{&m.releases, "switchyard.ticketing.releases", "tickets given back, by outcome"},
		{&m.late, "switchyard.ticketing.late_requests", "requests dropped because their deadline had passed"},
	} {
		var err error
		if *c.to, err = meter.Int64Counter(c.name, metric.WithDescription(c.desc)); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func count(ctx context.Context, c metric.Int64Counter, outcome string) {
	c.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", outcome)))
}

func (m *meters) issued(ctx context.Context, outcome string)   { count(ctx, m.issues, outcome) }
func (m *meters) redeemed(ctx context.Context, outcome string) { count(ctx, m.redeems, outcome) }
func (m *meters) released(ctx context.Context, outcome string) { count(ctx, m.releases, outcome) }
