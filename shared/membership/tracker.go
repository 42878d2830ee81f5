package membership

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/metric"

	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// Config of a Tracker. Zero fields take the defaults.
type Config struct {
	// GoneAfter is how long beacons must be missing before "no responders" counts. Default 1.5 s,
	// three beacons.
	GoneAfter time.Duration
	// GatewayGoneAfter is GoneAfter for gateways: what a wrong verdict costs there (every route
	// of the gateway) is more than a moment's delay. Default 2.25 s.
	GatewayGoneAfter time.Duration
	// HangTimeout is how long a life may be silent whose probes time out. Default 16 s.
	HangTimeout time.Duration
	// ReconnectGrace is how long nobody is declared gone after a reconnect of our own. Default 4 s.
	ReconnectGrace time.Duration
	// MaxNodes bounds the lives known at a time; further ones are ignored and counted. Default 1024.
	MaxNodes int
	// Log gets joins and leaves. nil: dropped.
	Log *slog.Logger
	// Meter counts them. nil: none.
	Meter metric.Meter
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&c.GoneAfter, 3*BeaconInterval)
	set(&c.GatewayGoneAfter, 2250*time.Millisecond)
	set(&c.HangTimeout, 16*time.Second)
	set(&c.ReconnectGrace, 4*time.Second)
	if c.MaxNodes <= 0 {
		c.MaxNodes = 1024
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

const (
	tickEvery = 50 * time.Millisecond
	// pauseAfter is a gap between two ticks that shows that this process was paused.
	pauseAfter   = time.Second
	beaconQueue  = 8192
	probeReplies = 4096
)

// Tracker is a view of all live nodes.
type Tracker struct {
	nc     *nats.Conn
	counts *counters

	// emitMu serialises what changes the view and its events. Taken before mu.
	emitMu  sync.Mutex
	nextSub int
	subs    map[int]func(Event)

	mu   sync.RWMutex
	view *view
}

// NewTracker makes a tracker that hears beacons on nc, the control connection.
func NewTracker(nc *nats.Conn, cfg Config) *Tracker {
	cfg = cfg.withDefaults()
	return &Tracker{
		nc: nc, counts: newCounters(cfg), subs: map[int]func(Event){},
		view: newView(cfg),
	}
}

// Run tracks until ctx ends. It returns an error only when beacons cannot be subscribed to.
func (t *Tracker) Run(ctx context.Context) error {
	beacons := make(chan *nats.Msg, beaconQueue)
	sub, err := t.nc.ChanSubscribe(subject.BeaconAll, beacons)
	if err != nil {
		return fmt.Errorf("subscribe to beacons: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	inbox := t.nc.NewInbox()
	replies := make(chan *nats.Msg, probeReplies)
	psub, err := t.nc.ChanSubscribe(inbox+".*", replies)
	if err != nil {
		return fmt.Errorf("subscribe to probe replies: %w", err)
	}
	defer func() { _ = psub.Unsubscribe() }()

	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	t.tick(inbox)
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-beacons:
			t.beacon(m)
		case m := <-replies:
			token := strings.TrimPrefix(m.Subject, inbox+".")
			gone := len(m.Data) == 0 && m.Header.Get("Status") == "503"
			t.change(func(v *view, now time.Time) []Event { return v.probed(now, token, gone) })
		case <-tick.C:
			t.tick(inbox)
		}
	}
}

func (t *Tracker) beacon(m *nats.Msg) {
	b := &wirepb.Beacon{}
	if err := b.UnmarshalVT(m.Data); err != nil ||
		m.Subject != subject.Beacon(b.Service, b.NodeId, b.BootId) {
		t.counts.ignored("malformed")
		return
	}
	t.change(func(v *view, now time.Time) []Event {
		events, ok := v.beacon(now, b)
		if !ok {
			t.counts.ignored("bound")
		}
		return events
	})
}

// tick lets time pass and sends the probes that are due.
func (t *Tracker) tick(inbox string) {
	connected, reconnects := t.nc.IsConnected(), t.nc.Stats().Reconnects
	var probes []probe
	t.change(func(v *view, now time.Time) []Event {
		var events []Event
		events, probes = v.tick(now, connected, reconnects)
		return events
	})
	for _, p := range probes {
		_ = t.nc.PublishRequest(subject.Probe(p.key.service, p.key.node, p.key.boot), inbox+"."+p.token, nil)
	}
}

// change applies f to the view and tells the subscribers what came of it.
func (t *Tracker) change(f func(v *view, now time.Time) []Event) {
	t.emitMu.Lock()
	defer t.emitMu.Unlock()
	t.mu.Lock()
	events := f(t.view, time.Now())
	t.mu.Unlock()
	for _, ev := range events {
		t.counts.event(ev)
		for _, s := range t.subs {
			s(ev)
		}
	}
}

// Nodes are all lives that are not gone, by service, id and boot.
func (t *Tracker) Nodes() []Node { return t.list("") }

// Live are the lives of a service that are not gone, by id and boot; silent ones are among them.
func (t *Tracker) Live(service string) []Node { return t.list(service) }

func (t *Tracker) list(service string) []Node {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var out []Node
	for k, l := range t.view.lives {
		if l.heard && (service == "" || k.service == service) {
			out = append(out, l.node)
		}
	}
	slices.SortFunc(out, func(a, b Node) int {
		if c := strings.Compare(a.Service, b.Service); c != 0 {
			return c
		}
		if c := strings.Compare(a.ID, b.ID); c != 0 {
			return c
		}
		return strings.Compare(a.Boot, b.Boot)
	})
	return out
}

// Alive reports whether the life is known and not gone.
func (t *Tracker) Alive(service, node, boot string) bool {
	s := t.Status(service, node, boot)
	return s == Live || s == Quiet
}

// Status says what is known of a life.
func (t *Tracker) Status(service, node, boot string) Status {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.view.status(key{service, node, boot})
}

// Suspect has a life probed that others speak of and this tracker never heard; its Status becomes
// Quiet, and then what the probes say. Does nothing for a life that is known.
func (t *Tracker) Suspect(service, node, boot string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.view.suspect(time.Now(), key{service, node, boot})
}

// Settled reports whether the tracker has listened for three beacon intervals since it started or
// reconnected, so that Live is meaningful.
func (t *Tracker) Settled() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.view.settled(time.Now())
}

// Subscribe has f called for each event, one at a time and in order, from the tracker's goroutine.
// f must not block and must not call Subscribe or cancel. Lives known already come first, as Joined,
// from the caller's goroutine. After cancel returns f is not called any more.
func (t *Tracker) Subscribe(f func(Event)) (cancel func()) {
	t.emitMu.Lock()
	defer t.emitMu.Unlock()
	t.mu.RLock()
	var known []Event
	for _, l := range t.view.lives {
		if l.heard {
			known = append(known, Event{Kind: Joined, Node: l.node, Beacon: l.beacon})
		}
	}
	t.mu.RUnlock()
	for _, ev := range known {
		f(ev)
	}
	id := t.nextSub
	t.nextSub++
	t.subs[id] = f
	return func() {
		t.emitMu.Lock()
		defer t.emitMu.Unlock()
		delete(t.subs, id)
	}
}
