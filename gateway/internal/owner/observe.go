package owner

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

type point struct {
	label string
	value func() int64
}

// Observe registers what the endpoints count with the meter. Unregister what it returns before
// the Owner is let go.
func (o *Owner) Observe(m metric.Meter) (metric.Registration, error) {
	n := &o.counts
	counters := []struct {
		name, text, key string
		points          []point
	}{
		{"switchyard.gateway.owner.pushes", "pushes to sessions, by result", "result", []point{
			{"queued", n.queued.Load}, {"stale", n.stale.Load}, {"overflow", n.overflow.Load}, {"parked", n.parked.Load}, {"expired", n.expired.Load},
		}},
		{"switchyard.gateway.owner.acknowledgements", "acknowledgements that were waited for, by result", "result", []point{
			{"acked", n.acked.Load}, {"timeout", n.ackTimeouts.Load}, {"refused", n.ackRefused.Load},
		}},
		{"switchyard.gateway.owner.batches", "push batches", "", []point{{"", n.batches.Load}}},
		{"switchyard.gateway.owner.ignored", "messages that were not served, by reason", "reason", []point{
			{"malformed", n.malformed.Load}, {"misdirected", n.misdirected.Load}, {"late", o.late.Count}, {"dropped", o.Dropped},
		}},
		{"switchyard.gateway.owner.replies_lost", "replies that could not be sent", "", []point{{"", n.lost.Load}}},
		{"switchyard.gateway.owner.actions", "actions on sessions, by result", "result", []point{
			{"asked", n.actions.Load}, {"closed", n.closed.Load}, {"gone", n.gone.Load},
		}},
		{"switchyard.gateway.owner.group_messages", "group messages, by kind", "kind", []point{
			{"push", n.groupPushes.Load}, {"sync", n.groupSyncs.Load},
		}},
	}
	groups, err := m.Int64ObservableGauge("switchyard.gateway.owner.groups", metric.WithDescription("groups with members here"))
	if err != nil {
		return nil, fmt.Errorf("gauge of groups: %w", err)
	}
	waits, err := m.Int64ObservableGauge("switchyard.gateway.owner.ack_waits", metric.WithDescription("acknowledgements that are waited for"))
	if err != nil {
		return nil, fmt.Errorf("gauge of acknowledgements: %w", err)
	}
	observables := []metric.Observable{groups, waits}
	instruments := make([]metric.Int64ObservableCounter, len(counters))
	for i, k := range counters {
		if instruments[i], err = m.Int64ObservableCounter(k.name, metric.WithDescription(k.text)); err != nil {
			return nil, fmt.Errorf("counter %s: %w", k.name, err)
		}
		observables = append(observables, instruments[i])
	}
	return m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		to.ObserveInt64(groups, int64(o.groups.Len()))
		to.ObserveInt64(waits, o.acks.open.Load())
		for i, k := range counters {
			for _, p := range k.points {
				if k.key == "" {
					to.ObserveInt64(instruments[i], p.value())
					continue
				}
				to.ObserveInt64(instruments[i], p.value(), metric.WithAttributes(attribute.String(k.key, p.label)))
			}
		}
		return nil
	}, observables...)
}
