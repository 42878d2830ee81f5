package authority

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/switchyard-io/switchyard/authority/internal/delivery"
	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/authority/internal/dispatch"
	"github.com/switchyard-io/switchyard/authority/internal/leader"
	"github.com/switchyard-io/switchyard/authority/internal/outside"
	"github.com/switchyard-io/switchyard/authority/internal/rpc"
	"github.com/switchyard-io/switchyard/shared/events"
	"github.com/switchyard-io/switchyard/shared/leadership"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/membership"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/slot"
)

// stage is a set of goroutines that end together.
type stage struct {
	cancel context.CancelFunc
	ctx    context.Context
	wg     sync.WaitGroup
}

func newStage() *stage {
	s := &stage{}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

func (s *stage) stop() {
	s.cancel()
	s.wg.Wait()
}

// parts is what lives between Start and Stop, in the order in which it is made.
type parts struct {
	authority *Authority
	conns     *natsconn.Conns
	observed  []metric.Registration

	views   *stage // tracker, table: end after leadership
	lead    *stage // engine, ticks
	publish *stage // events
	beacons *stage // end last

	tracker    *membership.Tracker
	table      *leadership.Table
	untrack    func()
	caller     *natsconn.Caller
	links      *delivery.Links
	leader     *leader.Leader
	eventCalls *natsconn.Caller // outlives the other one: events follow from how that ends
	events     *events.Publisher
	server     *rpc.Server
	outside    *outside.Outside
	micro      *lifecycle.MicroService
	engine     *leadership.Engine
	announcer  *membership.Announcer
	comebacks  comebacks
	membership sync.Mutex // orders OwnerGone and OwnerBack with Acquired

	opening sync.Mutex                   // before membership; held while a slot is opened or closed
	failed  map[slot.ID]leadership.Entry // acquired, but not subscribed to: tried again
}

// build makes and starts the parts. After an error the parts made so far are returned with it.
func (a *Authority) build(ctx context.Context) (*parts, error) {
	p := &parts{authority: a, views: newStage(), lead: newStage(), publish: newStage(), beacons: newStage(), failed: map[slot.ID]leadership.Entry{}}
	var err error
	if p.conns, err = natsconn.Open(ctx, a.nats.For(a.node.Service), a.node.Service+" "+a.node.ID, a.log); err != nil {
		return p, err
	}
	meter := a.tel.Meter(scope)
	reg, err := p.conns.Observe(meter)
	if err != nil {
		return p, err
	}
	p.observed = append(p.observed, reg)
	layout, err := p.view(ctx, meter)
	if err != nil {
		return p, err
	}
	if err := p.serve(layout); err != nil {
		return p, err
	}
	if err := p.eventStream(ctx); err != nil {
		return p, fmt.Errorf("event stream: %w", err)
	}
	p.publish.wg.Go(func() { p.events.Run(p.publish.ctx) })
	if reg, err = p.observe(meter); err != nil {
		return p, err
	}
	p.observed = append(p.observed, reg)
	return p, p.begin()
}

// view starts what the node knows of the cluster.
func (p *parts) view(ctx context.Context, meter metric.Meter) (slot.Layout, error) {
	a := p.authority
	js, err := natsconn.JetStream(p.conns.Control)
	if err != nil {
		return slot.Layout{}, err
	}
	layout, err := leadership.Setup(ctx, js, a.cfg.Replicas, a.cfg.LogicalSlots)
	if err != nil {
		return layout, err
	}
	p.tracker = membership.NewTracker(p.conns.Control, membership.Config{MaxNodes: a.cfg.MaxNodes, Log: a.log, Meter: meter})
	if p.table, err = leadership.NewTable(leadership.TableConfig{Log: a.log, Meter: meter}, layout, p.conns.Control, p.tracker); err != nil {
		return layout, err
	}
	p.views.wg.Go(func() { p.must("beacons", p.tracker.Run(p.views.ctx)) })
	p.views.wg.Go(func() { p.must("slot table", p.table.Run(p.views.ctx)) })
	return layout, nil
}

// must ends the service for an error of a part that should run for ever.
func (p *parts) must(what string, err error) {
	if err != nil {
		p.authority.Fail(fmt.Errorf("%s: %w", what, err))
	}
}

// serve makes what serves calls; nothing leads yet.
func (p *parts) serve(layout slot.Layout) error {
	a, cfg := p.authority, p.authority.cfg
	dir, err := directory.New(directory.Config{TTL: cfg.RouteTTL, MaxRoutes: cfg.MaxRoutes, RebuildWait: cfg.LeaderWait}, time.Now())
	if err != nil {
		return err
	}
	if p.caller, err = natsconn.NewCaller(p.conns.Data, cfg.MaxCalls); err != nil {
		return err
	}
	p.links = delivery.New(delivery.Config{AllAckParcels: max(cfg.MaxCalls/2, 1), Gone: dir.Gone}, p.caller)
	p.leader = leader.New(leader.Config{
		MaxHeld: cfg.MaxHeld, RebuildHold: cfg.LeaderWait, Hearing: p.conns.Data.IsConnected, OwnerTimeout: cfg.OwnerTimeout, Log: a.log,
	}, layout, dir, p.links, p.serving)
	if p.eventCalls, err = natsconn.NewCaller(p.conns.Data, maxEventCalls); err != nil {
		return err
	}
	if p.events, err = events.New(events.Config{Queue: cfg.EventsQueue, InFlight: maxEventCalls, Log: a.log}, p.eventCalls); err != nil {
		return err
	}
	p.leader.Announce(userEvents{p.events})
	known := func(h slot.Hash) (slot.Target, bool) { return p.table.Snapshot().Target(h) }
	p.server = rpc.New(rpc.Config{Inbox: cfg.Inbox, OwnerTimeout: cfg.OwnerTimeout, Log: a.log}, a.node, p.conns.Data, p.leader, known)
	d := dispatch.New(dispatch.Config{LeaderWait: cfg.LeaderWait, OwnerTimeout: cfg.OwnerTimeout}, p.conns.Data, p.caller, snapshots{p.table}, p.tracker)
	p.outside = outside.New(outside.Config{
		MaxRequests: cfg.MaxRequests, HoldFor: cfg.LeaderWait, Log: a.log, Tracer: a.tel.Tracer(scope),
	}, p.conns.Data, p.leader, d, outside.Cluster{Table: p.table, Tracker: p.tracker})
	if p.engine, err = leadership.NewEngine(leadership.EngineConfig{
		LeaseTTL: cfg.Lease, RenewEvery: cfg.Lease / 5, Log: a.log, Meter: a.tel.Meter(scope), Pulse: p.pulse,
	}, a.node, p.conns.Control, p.table, p); err != nil {
		return err
	}
	p.announcer = membership.NewAnnouncer(p.conns.Control, a.node, p.beacon)
	return nil
}

// eventStream gets the stream ready that events go to.
func (p *parts) eventStream(ctx context.Context) error {
	js, err := natsconn.JetStream(p.conns.Control)
	if err != nil {
		return err
	}
	cfg := p.authority.cfg
	return events.Setup(ctx, js, events.Stream{MaxAge: cfg.EventsMaxAge, MaxBytes: cfg.EventsMaxBytes, Replicas: cfg.Replicas})
}

// snapshots is the table as dispatch sees it.
type snapshots struct{ *leadership.Table }

func (s snapshots) Snapshot() dispatch.Snapshot { return s.Table.Snapshot() }

// serving is the fence of the leader.
func (p *parts) serving(id slot.ID) (leadership.Entry, bool) { return p.engine.Serving(id) }

// begin starts serving and leading.
func (p *parts) begin() error {
	a := p.authority
	if err := p.server.Start(p.table.Layout(), p.outside); err != nil {
		return err
	}
	var err error
	if p.micro, err = lifecycle.Micro(p.conns.Data, a.node, "where every user is, and delivery to them"); err != nil {
		return err
	}
	if err := p.outside.Register(p.micro); err != nil {
		return err
	}
	p.untrack = p.tracker.Subscribe(p.memberChanged)
	p.beacons.wg.Go(func() { p.must("announcing the node", p.announcer.Run(p.beacons.ctx)) })
	p.lead.wg.Go(func() { p.must("leadership", p.engine.Run(p.lead.ctx)) })
	p.lead.wg.Go(p.ticks)
	return nil
}

// stop ends the parts; those that were never made are nil.
func (p *parts) stop(ctx context.Context) error {
	var err error
	if p.micro != nil {
		err = p.micro.Stop()
		grace, cancel := context.WithTimeout(ctx, stopGrace)
		p.outside.Stop(grace)
		cancel()
	}
	if p.untrack != nil {
		p.untrack()
	}
	p.lead.stop()
	if p.server != nil {
		p.server.Stop()
		p.settle(ctx)
		p.links.Close()
	}
	if p.caller != nil {
		p.caller.Close()
	}
	p.publish.stop()
	if p.eventCalls != nil {
		p.eventCalls.Close()
	}
	p.views.stop()
	for _, r := range p.observed {
		_ = r.Unregister()
	}
	p.beacons.stop()
	if p.conns != nil {
		p.conns.Close()
	}
	return err
}

// settle waits for the results of what was sent, bounded.
func (p *parts) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for p.caller.Pending() > 0 {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return
		}
	}
}
