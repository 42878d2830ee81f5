package ticketing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/switchyard-io/switchyard/shared/deadline"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/membership"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/telemetry"
	"github.com/switchyard-io/switchyard/shared/ticket"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
	"github.com/switchyard-io/switchyard/ticketing/internal/keys"
	"github.com/switchyard-io/switchyard/ticketing/internal/ledger"
)

const stopPoll = 5 * time.Millisecond

// Ticketing is one instance of the service. It implements lifecycle.Service.
type Ticketing struct {
	lifecycle.Machine
	cfg    Config
	node   lifecycle.Node
	nats   natsconn.Config
	tel    *telemetry.Telemetry
	log    *slog.Logger
	meters *meters

	ctx    context.Context // of everything that runs
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// Set by Start, in this order, and not changed afterwards.
	mu        sync.Mutex
	conns     *natsconn.Conns
	observed  metric.Registration
	keys      *keys.Store
	announcer *membership.Announcer
	endpoints *endpoints
	micro     *lifecycle.MicroService
	server    *http.Server
	addr      string
}

// New checks the configuration. It connects to nothing and starts nothing.
func New(cfg Config, node lifecycle.Node, nats natsconn.Config, tel *telemetry.Telemetry, log *slog.Logger) (*Ticketing, error) {
	if err := errors.Join(cfg.Validate(), nats.Validate(), node.Validate()); err != nil {
		return nil, err
	}
	m, err := newMeters(tel)
	if err != nil {
		return nil, err
	}
	cfg.LoginTTL, cfg.ReconnectTTL = ticket.WholeSeconds(cfg.LoginTTL), ticket.WholeSeconds(cfg.ReconnectTTL)
	t := &Ticketing{cfg: cfg, node: node, nats: nats, tel: tel, log: log, meters: m}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t, nil
}

// Node names the instance and its life.
func (t *Ticketing) Node() lifecycle.Node { return t.node }

// URL is where the HTTP API is reached, after Start.
func (t *Ticketing) URL() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return "http://" + t.addr
}

// Start connects, opens the keys and the ledger, and then serves. It returns when it serves or
// ctx ends.
func (t *Ticketing) Start(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	conns, err := natsconn.Open(ctx, t.nats.For(t.node.Service), t.node.Service+"-"+t.node.ID, t.log)
	if err != nil {
		return err
	}
	t.conns = conns
	if t.observed, err = conns.Observe(t.tel.Meter(scope)); err != nil {
		return err
	}
	red, err := t.open(ctx)
	if err != nil {
		return err
	}
	t.wg.Go(func() { t.keys.Run(t.ctx) })
	t.announcer = membership.NewAnnouncer(conns.Control, t.node, func(b *wirepb.Beacon) { b.State = t.State() })
	t.wg.Go(func() {
		if err := t.announcer.Run(t.ctx); err != nil {
			t.Fail(fmt.Errorf("beacons: %w", err))
		}
	})

	// The data connection carries nothing but endpoints: Stop waits until it has none left.
	if t.micro, err = lifecycle.Micro(conns.Data, t.node, "signs tickets and lets each authenticate once"); err != nil {
		return err
	}
	t.endpoints = &endpoints{
		ctx: t.ctx, nc: conns.Data, desk: red.desk, redeemer: red, jwks: t.keys.JWKS,
		meters: t.meters, late: deadline.NewGuard(t.log), turns: make(chan struct{}, t.cfg.MaxInFlight),
	}
	if err := t.endpoints.add(t.micro); err != nil {
		return err
	}
	if err := t.listen(ctx, red.desk); err != nil {
		return err
	}
	return t.moveLocked(lifecycle.Ready)
}

// moveLocked changes the state and lets the others know.
func (t *Ticketing) moveLocked(to string) error {
	changed, err := t.Move(to)
	if changed && t.announcer != nil {
		t.announcer.Pulse()
	}
	return err
}

// open gets the buckets ready and loads the keys.
func (t *Ticketing) open(ctx context.Context) (*redeemer, error) {
	js, err := natsconn.JetStream(t.conns.Control)
	if err != nil {
		return nil, err
	}
	replicas := natsconn.Replicas(ctx, js, t.cfg.Replicas)
	if _, err := natsconn.EnsureKV(ctx, js, ledger.Bucket(replicas, t.cfg.LedgerMaxBytes)); err != nil {
		return nil, fmt.Errorf("tickets bucket: %w", err)
	}
	kv, err := natsconn.EnsureKV(ctx, js, keys.Bucket(replicas))
	if err != nil {
		return nil, fmt.Errorf("keys bucket: %w", err)
	}
	t.keys = keys.New(kv, ticket.DefaultIssuer, ticket.DefaultAudience, t.log)
	if err := t.keys.Open(ctx); err != nil {
		return nil, err
	}
	verifier, err := ticket.NewVerifier(ticket.VerifierConfig{LoginTTL: t.cfg.LoginTTL, ReconnectTTL: t.cfg.ReconnectTTL}, t.keys)
	if err != nil {
		return nil, err
	}
	return &redeemer{
		verifier: verifier,
		ledger:   ledger.New(ledger.NewJetStream(t.conns.Control, js)),
		desk:     &desk{keys: t.keys, loginTTL: t.cfg.LoginTTL, reconnectTTL: t.cfg.ReconnectTTL},
		meters:   t.meters,
		log:      t.log,
	}, nil
}

func (t *Ticketing) listen(ctx context.Context, d *desk) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", t.cfg.Listen)
	if err != nil {
		return fmt.Errorf("TICKETING_LISTEN: %w", err)
	}
	t.addr = l.Addr().String()
	t.server = newWeb(d, t.keys.JWKS, t.cfg.AdminToken, t.meters).server()
	server := t.server
	t.wg.Go(func() {
		if err := server.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			t.Fail(fmt.Errorf("ticketing http: %w", err))
		}
	})
	return nil
}

// Check is nil when the instance is ready.
func (t *Ticketing) Check() error {
	if err := t.CheckReady(); err != nil {
		return err
	}
	if err := t.conns.Check(); err != nil { // set before Ready
		return err
	}
	return t.micro.Check()
}

// Drain turns readiness off. Requests are still answered until Stop: a draining gateway resumes
// sessions and needs redeems for that.
func (t *Ticketing) Drain(context.Context) error {
	t.mu.Lock() // after a Start that is under way
	defer t.mu.Unlock()
	return t.moveLocked(lifecycle.Draining)
}

// Undrain takes a Drain back.
func (t *Ticketing) Undrain(context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.moveLocked(lifecycle.Ready)
}

// Stop takes no more requests, finishes those that run (bounded by ctx), and closes.
func (t *Ticketing) Stop(ctx context.Context) error {
	if changed, err := t.Move(lifecycle.Stopped); err != nil || !changed {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	if t.micro != nil {
		errs = append(errs, t.micro.Stop(), t.finish(ctx))
	}
	if t.server != nil {
		errs = append(errs, t.server.Shutdown(ctx))
	}
	t.cancel()
	t.wg.Wait()
	if t.observed != nil {
		errs = append(errs, t.observed.Unregister())
	}
	if t.conns != nil {
		t.conns.Close()
	}
	return errors.Join(errs...)
}

// finish waits until the endpoints' subscriptions are drained and no call runs.
func (t *Ticketing) finish(ctx context.Context) error {
	tick := time.NewTicker(stopPoll)
	defer tick.Stop()
	for t.conns.Data.NumSubscriptions() > 0 || t.endpoints != nil && t.endpoints.running.Load() > 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("requests still run: %w", ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}
