package presence

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

// Observe registers what the client counts with the meter. Unregister what it returns before the
// client is let go.
func (c *Client) Observe(m metric.Meter) (metric.Registration, error) {
	n := &c.counts
	counters := []struct {
		name, text, key string
		points          []point
	}{
		{"switchyard.gateway.presence.attempts", "requests to leaders and owners", "", []point{{"", n.attempts.Load}}},
		{"switchyard.gateway.presence.failures", "requests that failed or were redirected, by reason", "reason", []point{
			{"stale", n.stale.Load}, {"no_responders", n.noResponders.Load}, {"timeout", n.timeouts.Load}, {"malformed", n.malformed.Load},
		}},
		{"switchyard.gateway.presence.retries", "attempts after the first", "", []point{{"", n.retries.Load}}},
		{"switchyard.gateway.presence.touches", "touched sessions, by result", "result", []point{
			{"ok", n.touched.Load}, {"failed", n.touchFailed.Load}, {"missing", n.missing.Load},
		}},
		{"switchyard.gateway.presence.unregisters", "unregisters, by result", "result", []point{
			{"ok", n.unregistered.Load}, {"fenced", n.unregisterFenced.Load}, {"retry", n.unregisterRetry.Load}, {"full", n.unregisterFull.Load},
		}},
		{"switchyard.gateway.presence.restores", "sessions told to a leader again, by result", "result", []point{
			{"ok", n.restored.Load}, {"closed", n.restoreClosed.Load},
		}},
		{"switchyard.gateway.presence.reports", "whole reports of a hash slot to a new term, by result", "result", []point{
			{"ok", n.restoreComplete.Load}, {"failed", n.restoreFailed.Load},
		}},
	}
	waiting, err := m.Int64ObservableGauge("switchyard.gateway.presence.unregistering", metric.WithDescription("unregisters that no leader has taken yet"))
	if err != nil {
		return nil, fmt.Errorf("gauge of unregisters: %w", err)
	}
	observables := []metric.Observable{waiting}
	instruments := make([]metric.Int64ObservableCounter, len(counters))
	for i, k := range counters {
		if instruments[i], err = m.Int64ObservableCounter(k.name, metric.WithDescription(k.text)); err != nil {
			return nil, fmt.Errorf("counter %s: %w", k.name, err)
		}
		observables = append(observables, instruments[i])
	}
	return m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(waiting, int64(c.Unregistering()))
		for i, k := range counters {
			for _, p := range k.points {
				if k.key == "" {
					o.ObserveInt64(instruments[i], p.value())
					continue
				}
				o.ObserveInt64(instruments[i], p.value(), metric.WithAttributes(attribute.String(k.key, p.label)))
			}
		}
		return nil
	}, observables...)
}
