package leadership

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// The feeds of a table, as metric attributes.
const (
	feedChange = "change"
	feedBeacon = "beacon"
	feedList   = "list"
	feedSelf   = "self"
)

// The instruments' names are constants of this file: a refusal would be a fault of the meter, and
// the noop instrument that comes with it is good enough. Hence the errors dropped below.

type tableCounters struct {
	changes metric.Int64Counter
	gaps    metric.Int64Counter
}

func newTableCounters(m metric.Meter, t *Table) *tableCounters {
	if m == nil {
		m = noop.Meter{}
	}
	c := &tableCounters{}
	c.changes, _ = m.Int64Counter("leadership.table.changes",
		metric.WithDescription("changes of a slot's leadership, by the feed that told first"))
	c.gaps, _ = m.Int64Counter("leadership.table.gaps",
		metric.WithDescription("gaps in the republished changes"))
	_, _ = m.Float64ObservableGauge("leadership.table.staleness", metric.WithUnit("s"),
		metric.WithDescription("time since the slot bucket was last listed whole"),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			o.Observe(t.Staleness().Seconds())
			return nil
		}))
	return c
}

func (c *tableCounters) change(feed string) {
	c.changes.Add(context.Background(), 1, metric.WithAttributes(attribute.String("feed", feed)))
}

func (c *tableCounters) gap() { c.gaps.Add(context.Background(), 1) }

type engineCounters struct {
	claims   metric.Int64Counter
	losses   metric.Int64Counter
	renewals metric.Int64Counter
	doubts   metric.Int64Counter
}

func newEngineCounters(m metric.Meter, e *Engine) *engineCounters {
	if m == nil {
		m = noop.Meter{}
	}
	c := &engineCounters{}
	c.claims, _ = m.Int64Counter("leadership.claims", metric.WithDescription("claims of a slot, by result"))
	c.losses, _ = m.Int64Counter("leadership.losses", metric.WithDescription("slots lost, by reason"))
	c.renewals, _ = m.Int64Counter("leadership.lease.renewals", metric.WithDescription("renewals of the node lease, by result"))
	c.doubts, _ = m.Int64Counter("leadership.confirmations",
		metric.WithDescription("confirmations of leadership after a lapse or a reconnect, by result"))
	_, _ = m.Int64ObservableGauge("leadership.slots", metric.WithDescription("logical slots that may be served now"),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(e.servingCount()))
			return nil
		}))
	_, _ = m.Float64ObservableGauge("leadership.lease.remaining", metric.WithUnit("s"),
		metric.WithDescription("time that the node lease still holds, not below 0"),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			o.Observe(max(0, e.lease.remaining().Seconds()))
			return nil
		}))
	return c
}

func count(c metric.Int64Counter, key, val string) {
	c.Add(context.Background(), 1, metric.WithAttributes(attribute.String(key, val)))
}

func result(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}
