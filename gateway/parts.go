package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/metric"

	"github.com/switchyard-io/switchyard/gateway/internal/activation"
	"github.com/switchyard-io/switchyard/gateway/internal/keyring"
	"github.com/switchyard-io/switchyard/gateway/internal/owner"
	"github.com/switchyard-io/switchyard/gateway/internal/presence"
	"github.com/switchyard-io/switchyard/gateway/internal/registry"
	"github.com/switchyard-io/switchyard/gateway/internal/session"
	"github.com/switchyard-io/switchyard/shared/events"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/leadership"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/membership"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// parts is everything behind the sockets: made by Start, in the order of the fields, and ended in
// the reverse.
type parts struct {
	conns      *natsconn.Conns
	observed   []metric.Registration
	tracker    *membership.Tracker
	table      *leadership.Table
	caller     *natsconn.Caller
	presence   *presence.Client
	owner      *owner.Owner
	keys       *keyring.Keyring
	events     *events.Publisher
	activation *activation.Activation
	host       *session.Host
	announcer  *membership.Announcer
	micro      *lifecycle.MicroService

	ctx    context.Context // of the workers
	cancel context.CancelFunc
	work   sync.WaitGroup

	// The announcer goes on until everything else has ended: its last beacon says so.
	beacons       sync.WaitGroup
	silence       context.CancelFunc
	beaconContext context.Context
}

func newRegistry(cfg Config) (*session.Registry, error) {
	return registry.New[*session.Session](registry.Config{MaxSessions: cfg.MaxSessions})
}

// goWorker runs f until the parts are stopped.
func (p *parts) goWorker(f func(context.Context)) { p.work.Go(func() { f(p.ctx) }) }

// assemble makes and starts the parts. After an error what there is must still be stopped.
func (g *Gateway) assemble(ctx context.Context) (*parts, error) {
	p := &parts{}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.beaconContext, p.silence = context.WithCancel(context.Background())
	var err error
	if p.conns, err = natsconn.Open(ctx, g.nats.For(g.node.Service), g.node.Service+"-"+g.node.ID, g.log); err != nil {
		return p, err
	}
	for _, step := range []func(context.Context, *parts) error{
		g.followLeaders, g.callLeaders, g.serveOwner, g.letIn, g.observe, g.announce,
	} {
		if err := step(ctx, p); err != nil {
			return p, err
		}
	}
	return p, nil
}

// followLeaders keeps the slot table.
func (g *Gateway) followLeaders(ctx context.Context, p *parts) error {
	js, err := natsconn.JetStream(p.conns.Control)
	if err != nil {
		return err
	}
	layout, err := leadership.Setup(ctx, js, g.cfg.Replicas, 0)
	if err != nil {
		return err
	}
	meter := g.tel.Meter(scope)
	p.tracker = membership.NewTracker(p.conns.Control, membership.Config{MaxNodes: g.cfg.MaxNodes, Log: g.log, Meter: meter})
	if p.table, err = leadership.NewTable(leadership.TableConfig{Log: g.log, Meter: meter}, layout, p.conns.Control, p.tracker); err != nil {
		return err
	}
	p.goWorker(func(ctx context.Context) { g.failOn("node tracker", p.tracker.Run(ctx)) })
	p.goWorker(func(ctx context.Context) { g.failOn("slot table", p.table.Run(ctx)) })
	return nil
}

func (g *Gateway) failOn(what string, err error) {
	if err != nil {
		g.Fail(fmt.Errorf("%s: %w", what, err))
	}
}

// leaders is the slot table as presence asks it.
type leaders struct{ *leadership.Table }

func (l leaders) Target(h slot.Hash) (slot.Target, bool) { return l.Snapshot().Target(h) }

// callLeaders tells the leaders what this gateway holds.
func (g *Gateway) callLeaders(_ context.Context, p *parts) error {
	var err error
	if p.caller, err = natsconn.NewCaller(p.conns.Data, maxCalls); err != nil {
		return err
	}
	p.presence, err = presence.New(presence.Config{
		Gateway: g.node.ID, Boot: g.node.Boot, TouchInterval: g.cfg.TouchInterval,
		Reconnects: func() uint64 { return p.conns.Data.Stats().Reconnects + p.conns.Control.Stats().Reconnects },
	}, p.caller, leaders{p.table}, presence.FromRegistry(g.sessions, func(s *session.Session) {
		s.End(owner.Ending{Code: fault.CloseReplaced, Action: owner.DuplicateLogin})
	}))
	if err != nil {
		return err
	}
	unsubscribe := p.table.Subscribe(func(slot.ID, leadership.Entry, leadership.Entry) { p.presence.SlotChanged() })
	back := &comebacks{node: g.node, again: p.presence.ReportAgain, heard: map[[2]string]uint64{}}
	untrack := p.tracker.Subscribe(back.event)
	p.goWorker(func(ctx context.Context) {
		defer untrack()
		defer unsubscribe()
		p.presence.Run(ctx)
	})
	return nil
}

// serveOwner takes pushes and actions for this life.
func (g *Gateway) serveOwner(_ context.Context, p *parts) error {
	var err error
	p.owner, err = owner.New(owner.Config{
		Gateway: g.node.ID, Boot: g.node.Boot, MaxGroupsPerSession: g.cfg.MaxGroups, Log: g.log,
	}, p.conns.Data, owner.FromRegistry(g.sessions))
	if err != nil {
		return err
	}
	return p.owner.Start()
}

// letIn makes what turns connections into sessions.
func (g *Gateway) letIn(_ context.Context, p *parts) error {
	var err error
	p.keys, err = keyring.New(keyring.Config{}, func(ctx context.Context, subj string, data []byte) (*nats.Msg, error) {
		return natsconn.Request(ctx, p.conns.Data, subj, data)
	})
	if err != nil {
		return err
	}
	p.goWorker(p.keys.Run)
	verifier, err := newTickets(p.keys)
	if err != nil {
		return err
	}
	routes := unregister{p.presence}
	p.activation, err = activation.New(g.cfg.activation(), activation.Deps{
		Registry: g.sessions, Verifier: verifier, Ledger: activation.NewTicketingLedger(p.conns.Data),
		Presence: p.presence, Owners: p.presence, Routes: routes,
	})
	if err != nil {
		return err
	}
	if p.events, err = events.New(events.Config{Queue: g.cfg.EventsQueue, FlushWait: eventFlush, Log: g.log}, p.caller); err != nil {
		return err
	}
	p.goWorker(p.events.Run)
	p.host, err = session.NewHost(g.cfg.session(g.node.ID), session.Deps{
		Registry: g.sessions, Activator: p.activation, Groups: p.owner.Groups(), Routes: routes, Observer: &sessionEvents{Publisher: p.events, node: g.node},
	})
	return err
}

// unregister is presence as sessions end with it. A full queue is presence's to count: that route
// then ends by its expiry.
type unregister struct{ *presence.Client }

func (u unregister) Unregister(t registry.Tombstone) {
	_ = u.Client.Unregister(t.UID, t.Session, t.Seq)
}

// announce lets the others know that this life is here.
func (g *Gateway) announce(_ context.Context, p *parts) error {
	var err error
	if p.micro, err = lifecycle.Micro(p.conns.Data, g.node, "holds the clients' connections"); err != nil {
		return err
	}
	p.announcer = membership.NewAnnouncer(p.conns.Control, g.node, func(b *wirepb.Beacon) {
		b.State, b.Sessions = g.State(), uint64(g.sessions.Active())
	})
	p.beacons.Go(func() { g.failOn("beacons", p.announcer.Run(p.beaconContext)) })
	return nil
}

// Reasons why a gateway is not ready.
var errNoTable = errors.New("slot table not read yet")

func (p *parts) check() error {
	if err := p.conns.Check(); err != nil {
		return err
	}
	if !p.table.Synced() {
		return errNoTable
	}
	return errors.Join(p.keys.Check(), p.micro.Check())
}

// stop ends the parts, the sockets being closed: first what makes sessions, then, when the
// authority knows of their end, what tells it.
func (p *parts) stop(ctx context.Context) error {
	var errs []error
	if p.host != nil {
		p.host.Stop()
	}
	if p.activation != nil {
		p.activation.Stop(ctx)
	}
	if p.presence != nil && p.conns.Data.IsConnected() {
		if err := p.presence.Flush(ctx); err != nil {
			errs = append(errs, fmt.Errorf("routes not taken back: %w", err)) // the authority drops them with this life
		}
	}
	if p.owner != nil {
		p.owner.Stop()
	}
	p.cancel()
	p.work.Wait()
	if p.caller != nil {
		p.caller.Close()
	}
	if p.micro != nil {
		errs = append(errs, p.micro.Stop())
	}
	p.silence()
	p.beacons.Wait()
	for _, r := range p.observed {
		errs = append(errs, r.Unregister())
	}
	if p.conns != nil {
		p.conns.Close()
	}
	return errors.Join(errs...)
}

func address(a net.Addr) string {
	if a == nil {
		return ""
	}
	return a.String()
}
