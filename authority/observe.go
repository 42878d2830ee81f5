package authority

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/metric"

	"github.com/switchyard-io/switchyard/shared/events"
)

// reading is one instrument and where its value comes from.
type reading struct {
	name, text string
	gauge      bool
	value      func(*snapshot) int64
}

// snapshot is what one collection reads.
type snapshot struct {
	p                                                 *parts
	routes, users, owners, candidates, tombstones     int64
	departed                                          int64
	open, rebuilding                                  int64
	expired, fenced, tombstonesLost, candidatesLapsed int64
	events                                            events.Stats
	requests, refused, cut                            int64
}

func (p *parts) snapshot() *snapshot {
	s := &snapshot{p: p}
	sum, open, rebuilding := p.leader.Directory().Stats()
	s.routes, s.users, s.owners = int64(sum.Routes), int64(sum.Users), int64(sum.Owners)
	s.candidates, s.tombstones, s.departed = int64(sum.Candidates), int64(sum.Tombstones), int64(sum.Departed)
	s.open, s.rebuilding = int64(open), int64(rebuilding)
	s.expired, s.fenced = int64(sum.Expired), int64(sum.Fenced)
	s.tombstonesLost, s.candidatesLapsed = int64(sum.TombstonesLost), int64(sum.CandidatesLapsed)
	s.events = p.events.Stats()
	s.requests, s.refused, s.cut = p.outside.Counts()
	return s
}

// readings are the metrics of a node. Those of the directory count since each slot was opened, so
// all of them are gauges.
var readings = []reading{
	{"switchyard.authority.routes", "active routes of the slots led here", true, func(s *snapshot) int64 { return s.routes }},
	{"switchyard.authority.users", "users with a route, of the slots led here", true, func(s *snapshot) int64 { return s.users }},
	{"switchyard.authority.owners", "gateway lives with routes, summed over hash slots", true, func(s *snapshot) int64 { return s.owners }},
	{"switchyard.authority.candidates", "registered sessions that are not committed", true, func(s *snapshot) int64 { return s.candidates }},
	{"switchyard.authority.tombstones", "unregistered sessions that are still fenced", true, func(s *snapshot) int64 { return s.tombstones }},
	{"switchyard.authority.sessions.departed", "sessions that were replaced or lost while their gateway was silent", true, func(s *snapshot) int64 { return s.departed }},
	{"switchyard.authority.tombstones.lost", "tombstones and departed sessions dropped before their time, in the present terms", true, func(s *snapshot) int64 { return s.tombstonesLost }},
	{"switchyard.authority.candidates.lapsed", "candidates that timed out, in the present terms", true, func(s *snapshot) int64 { return s.candidatesLapsed }},
	{"switchyard.authority.routes.expired", "routes without a sign of life, in the present terms", true, func(s *snapshot) int64 { return s.expired }},
	{"switchyard.authority.routes.fenced", "calls refused by a tombstone or sequence, in the present terms", true, func(s *snapshot) int64 { return s.fenced }},
	{"switchyard.authority.hash_slots", "hash slots led here", true, func(s *snapshot) int64 { return s.open }},
	{"switchyard.authority.hash_slots.rebuilding", "hash slots that wait for gateways", true, func(s *snapshot) int64 { return s.rebuilding }},
	{"switchyard.authority.pushes", "pushes taken, one for each hash slot", false, func(s *snapshot) int64 { return s.p.leader.Stats().Pushes.Load() }},
	{"switchyard.authority.pushes.held", "pushes that waited for a rebuild", false, func(s *snapshot) int64 { return s.p.leader.Stats().Held.Load() }},
	{"switchyard.authority.pushes.waiting", "pushes that wait for a rebuild now", true, func(s *snapshot) int64 { return s.p.leader.Held() }},
	{"switchyard.authority.pushes.hold_overflow", "pushes refused since too many waited", false, func(s *snapshot) int64 { return s.p.leader.Stats().HoldOverflow.Load() }},
	{"switchyard.authority.routes.stale", "routes removed since their owner did not have them", false, func(s *snapshot) int64 { return s.p.leader.Stats().StaleRemoved.Load() }},
	{"switchyard.authority.evictions", "routes that lost to a restored one", false, func(s *snapshot) int64 { return s.p.leader.Stats().Evictions.Load() }},
	{"switchyard.authority.calls.refused", "calls with a stale target, or not served here", false, func(s *snapshot) int64 { return s.p.leader.Stats().Refused.Load() }},
	{"switchyard.authority.calls.late", "calls dropped after their deadline", false, func(s *snapshot) int64 { return s.p.server.Counts().Late }},
	{"switchyard.authority.calls.invalid", "calls that could not be read", false, func(s *snapshot) int64 { return s.p.server.Counts().Invalid }},
	{"switchyard.authority.calls.dropped", "calls dropped for a full inbox", true, func(s *snapshot) int64 { return s.p.server.Counts().Dropped }},
	{"switchyard.authority.calls.pending", "calls to gateways and leaders that wait for an answer", true, func(s *snapshot) int64 { return int64(s.p.caller.Pending()) }},
	{"switchyard.authority.delivery.batches", "owner-push messages", false, func(s *snapshot) int64 { return s.p.links.Counts().Batches }},
	{"switchyard.authority.delivery.parcels", "pushes to single sessions", false, func(s *snapshot) int64 { return s.p.links.Counts().Parcels }},
	{"switchyard.authority.delivery.overflow", "parcels refused for a full queue", false, func(s *snapshot) int64 { return s.p.links.Counts().Overflow }},
	{"switchyard.authority.delivery.no_answer", "parcels whose owner did not answer in time", false, func(s *snapshot) int64 { return s.p.links.Counts().NoAnswer }},
	{"switchyard.authority.delivery.stale", "parcels whose session was not there", false, func(s *snapshot) int64 { return s.p.links.Counts().Stale }},
	{"switchyard.authority.delivery.actions", "owner actions", false, func(s *snapshot) int64 { return s.p.links.Counts().Actions }},
	{"switchyard.authority.events", "user events in the stream", false, func(s *snapshot) int64 { return s.events.Published }},
	{"switchyard.authority.events.lost", "user events that did not reach the stream", false, func(s *snapshot) int64 { return s.events.Lost }},
	{"switchyard.authority.events.retried", "user events published again", false, func(s *snapshot) int64 { return s.events.Retried }},
	{"switchyard.authority.events.queued", "user events that wait", true, func(s *snapshot) int64 { return s.events.Queued }},
	{"switchyard.authority.requests", "requests of backends", false, func(s *snapshot) int64 { return s.requests }},
	{"switchyard.authority.requests.refused", "requests refused since too many ran", false, func(s *snapshot) int64 { return s.refused }},
	{"switchyard.authority.replies.cut", "replies shortened to fit a message", false, func(s *snapshot) int64 { return s.cut }},
}

// observe registers the readings; hot paths only bump atomics.
func (p *parts) observe(m metric.Meter) (metric.Registration, error) {
	instruments := make([]metric.Int64Observable, len(readings))
	all := make([]metric.Observable, len(readings))
	for i, r := range readings {
		var err error
		if r.gauge {
			instruments[i], err = m.Int64ObservableGauge(r.name, metric.WithDescription(r.text))
		} else {
			instruments[i], err = m.Int64ObservableCounter(r.name, metric.WithDescription(r.text))
		}
		if err != nil {
			return nil, fmt.Errorf("instrument %s: %w", r.name, err)
		}
		all[i] = instruments[i]
	}
	reg, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := p.snapshot()
		for i, r := range readings {
			o.ObserveInt64(instruments[i], r.value(s))
		}
		return nil
	}, all...)
	if err != nil {
		return nil, fmt.Errorf("observing the node: %w", err)
	}
	return reg, nil
}
