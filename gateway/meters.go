package gateway

import (
	"context"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/switchyard-io/switchyard/gateway/internal/activation"
	"github.com/switchyard-io/switchyard/gateway/internal/keyring"
	"github.com/switchyard-io/switchyard/gateway/internal/session"
	"github.com/switchyard-io/switchyard/gateway/internal/transport"
	"github.com/switchyard-io/switchyard/shared/events"
)

// reading is what the parts have counted when somebody asks.
type reading struct {
	transport  transport.Stats
	session    session.Stats
	activation activation.Stats
	keys       keyring.Stats
	events     events.Stats
	active     int64
}

// meter is one instrument; values yields each of its points.
type meter struct {
	name, unit, text string
	gauge            bool
	values           func(r *reading, put func(int64, ...attribute.KeyValue))
}

// one is a meter without labels.
func one(value func(*reading) int64) func(*reading, func(int64, ...attribute.KeyValue)) {
	return func(r *reading, put func(int64, ...attribute.KeyValue)) { put(value(r)) }
}

// by is a meter with a label of fixed values.
func by(key string, values map[string]func(*reading) int64) func(*reading, func(int64, ...attribute.KeyValue)) {
	return func(r *reading, put func(int64, ...attribute.KeyValue)) {
		for label, value := range values {
			put(value(r), attribute.String(key, label))
		}
	}
}

type field = map[string]func(*reading) int64

var meters = []meter{
	{"switchyard.gateway.connections", "{connection}", "open connections", true, one(func(r *reading) int64 { return r.transport.Connections })},
	{"switchyard.gateway.sessions", "{session}", "authenticated sessions", true, one(func(r *reading) int64 { return r.active })},
	{"switchyard.gateway.activations", "{activation}", "authenticates at work", true, one(func(r *reading) int64 { return int64(r.activation.AtWork) })},
	{"switchyard.gateway.connects", "{connection}", "connections, by result", false, by("result", field{
		"accepted": func(r *reading) int64 { return r.transport.Accepted }, "refused": func(r *reading) int64 { return r.transport.Refused }})},
	{"switchyard.gateway.messages", "{message}", "messages on the sockets, by direction", false, by("direction", field{
		"in": func(r *reading) int64 { return r.transport.MessagesIn }, "out": func(r *reading) int64 { return r.transport.MessagesOut }})},
	{"switchyard.gateway.io", "By", "bytes on the sockets, by direction", false, by("direction", field{
		"in": func(r *reading) int64 { return r.transport.BytesIn }, "out": func(r *reading) int64 { return r.transport.BytesOut }})},
	{"switchyard.gateway.cuts", "{connection}", "connections cut by the transport, by reason", false, by("reason", field{
		"overflow":  func(r *reading) int64 { return r.transport.Overflows },
		"stuck":     func(r *reading) int64 { return r.transport.WriteTimeouts },
		"violation": func(r *reading) int64 { return r.transport.Violations },
		"too_big":   func(r *reading) int64 { return r.transport.TooBig }})},
	{"switchyard.gateway.closes", "{connection}", "ended connections, by close code; 0: by the client, or broken", false,
		func(r *reading, put func(int64, ...attribute.KeyValue)) {
			for code, n := range r.session.Closed {
				put(n, attribute.String("code", strconv.Itoa(int(code))))
			}
		}},
	{"switchyard.gateway.frames.refused", "{frame}", "frames answered with an error, by reason", false, by("reason", field{
		"violation":  func(r *reading) int64 { return r.session.Violations },
		"rate_limit": func(r *reading) int64 { return r.session.RateLimited }})},
	{"switchyard.gateway.pushes", "{push}", "pushes to sessions, by result", false, by("result", field{
		"queued":    func(r *reading) int64 { return r.session.Pushes },
		"overflow":  func(r *reading) int64 { return r.session.Overflows },
		"duplicate": func(r *reading) int64 { return r.session.Duplicates },
		"acked":     func(r *reading) int64 { return r.session.Acked },
		"unsent":    func(r *reading) int64 { return r.session.Unsent }})},
	{"switchyard.gateway.authenticates", "{attempt}", "authenticate requests, by result", false, by("result", field{
		"ok":              func(r *reading) int64 { return r.activation.Activated },
		"used":            func(r *reading) int64 { return r.activation.Used },
		"unauthenticated": func(r *reading) int64 { return r.activation.Unauthenticated },
		"unavailable":     func(r *reading) int64 { return r.activation.Unavailable },
		"closed":          func(r *reading) int64 { return r.activation.Closed },
		"other":           func(r *reading) int64 { return r.activation.Other }})},
	{"switchyard.gateway.evictions", "{session}", "sessions that made way for a login, by how", false, by("result", field{
		"confirmed": func(r *reading) int64 { return r.activation.Evicted },
		"fenced":    func(r *reading) int64 { return r.activation.Fenced }})},
	{"switchyard.gateway.tickets.spent", "{ticket}", "tickets of failed logins that could not be released", false,
		one(func(r *reading) int64 { return r.activation.Spent })},
	{"switchyard.gateway.tickets.releasing", "{ticket}", "tickets that are being released", true,
		one(func(r *reading) int64 { return int64(r.activation.Releasing) })},
	{"switchyard.gateway.keys.fetches", "{fetch}", "fetches of ticketing's keys, by result", false, by("result", field{
		"ok": func(r *reading) int64 { return r.keys.Fetched }, "failed": func(r *reading) int64 { return r.keys.Failed }})},
	{"switchyard.gateway.events", "{event}", "session events, by result", false, by("result", field{
		"published": func(r *reading) int64 { return r.events.Published },
		"retried":   func(r *reading) int64 { return r.events.Retried },
		"lost":      func(r *reading) int64 { return r.events.Lost }})},
	{"switchyard.gateway.events.queued", "{event}", "session events that wait", true, one(func(r *reading) int64 { return r.events.Queued })},
	{"switchyard.gateway.keys.misses", "{ticket}", "tickets with an unknown key", false, one(func(r *reading) int64 { return r.keys.Misses })},
}

// observe registers the instruments of the gateway and of its parts.
func (g *Gateway) observe(_ context.Context, p *parts) error {
	m := g.tel.Meter(scope)
	for _, register := range []func(metric.Meter) (metric.Registration, error){
		p.conns.Observe, p.presence.Observe, p.owner.Observe,
		func(m metric.Meter) (metric.Registration, error) { return g.observeMeters(m, p) },
	} {
		r, err := register(m)
		if err != nil {
			return err
		}
		p.observed = append(p.observed, r)
	}
	seconds, err := m.Float64ObservableCounter("switchyard.gateway.authenticates.duration", metric.WithUnit("s"),
		metric.WithDescription("time spent on authenticates, together"))
	if err != nil {
		return err
	}
	r, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveFloat64(seconds, p.activation.Stats().Seconds)
		return nil
	}, seconds)
	if err != nil {
		return err
	}
	p.observed = append(p.observed, r)
	return nil
}

func (g *Gateway) observeMeters(m metric.Meter, p *parts) (metric.Registration, error) {
	instruments := make([]metric.Int64Observable, len(meters))
	all := make([]metric.Observable, len(meters))
	for i, k := range meters {
		var err error
		if k.gauge {
			instruments[i], err = m.Int64ObservableGauge(k.name, metric.WithUnit(k.unit), metric.WithDescription(k.text))
		} else {
			instruments[i], err = m.Int64ObservableCounter(k.name, metric.WithUnit(k.unit), metric.WithDescription(k.text))
		}
		if err != nil {
			return nil, err
		}
		all[i] = instruments[i]
	}
	return m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		r := &reading{
			transport: g.listener.Stats(), session: p.host.Stats(), activation: p.activation.Stats(),
			keys: p.keys.Stats(), events: p.events.Stats(), active: int64(g.sessions.Active()),
		}
		for i, k := range meters {
			k.values(r, func(n int64, labels ...attribute.KeyValue) {
				o.ObserveInt64(instruments[i], n, metric.WithAttributes(labels...))
			})
		}
		return nil
	}, all...)
}
