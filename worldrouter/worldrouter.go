package worldrouter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/metric"

	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/membership"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/telemetry"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

const scope = "github.com/switchyard-io/switchyard/worldrouter"

// Worldrouter is one node of the service. It implements lifecycle.Service and is safe for
// concurrent use.
type Worldrouter struct {
	lifecycle.Machine
	node lifecycle.Node
	nats natsconn.Config
	tel  *telemetry.Telemetry
	log  *slog.Logger

	mu      sync.Mutex // guards what Start makes and Stop takes
	running *running   // nil before Start and after Stop
}

// running is what lives between Start and Stop.
type running struct {
	conns     *natsconn.Conns
	micro     *lifecycle.MicroService
	observed  metric.Registration
	announcer *membership.Announcer
	cancel    context.CancelFunc // ends the announcer
	wg        sync.WaitGroup
}

// New makes a node; it connects in Start.
func New(_ Config, node lifecycle.Node, nats natsconn.Config, tel *telemetry.Telemetry, log *slog.Logger) (*Worldrouter, error) {
	if err := errors.Join(node.Validate(), nats.Validate()); err != nil {
		return nil, err
	}
	return &Worldrouter{node: node, nats: nats, tel: tel, log: log.With("service", node.Service, "node", node.ID)}, nil
}

// Node names the instance and its life.
func (w *Worldrouter) Node() lifecycle.Node { return w.node }

// Start connects, for as long as ctx allows, and announces the node.
func (w *Worldrouter) Start(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running != nil || w.State() != lifecycle.Starting {
		return fmt.Errorf("%w: started before", lifecycle.ErrTransition)
	}
	r, err := w.open(ctx)
	if err != nil {
		return err
	}
	w.running = r
	_, err = w.Move(lifecycle.Ready)
	r.announcer.Pulse()
	return err
}

func (w *Worldrouter) open(ctx context.Context) (*running, error) {
	conns, err := natsconn.Open(ctx, w.nats.For(w.node.Service), w.node.Service+" "+w.node.ID, w.log)
	if err != nil {
		return nil, err
	}
	r := &running{conns: conns}
	if r.observed, err = conns.Observe(w.tel.Meter(scope)); err != nil {
		conns.Close()
		return nil, err
	}
	if r.micro, err = lifecycle.Micro(conns.Data, w.node, "World routing: life and health"); err != nil {
		conns.Close()
		return nil, errors.Join(err, r.observed.Unregister())
	}
	// Ready means that what others may ask for is there, at the server.
	if err := conns.Data.FlushTimeout(natsconn.DefaultTimeout); err != nil {
		err = errors.Join(fmt.Errorf("flushing subscriptions: %w", err), r.micro.Stop(), r.observed.Unregister())
		conns.Close()
		return nil, err
	}
	r.announcer = membership.NewAnnouncer(conns.Control, w.node, func(b *wirepb.Beacon) { b.State = w.State() })
	announce, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.wg.Go(func() {
		if err := r.announcer.Run(announce); err != nil && announce.Err() == nil {
			w.Fail(fmt.Errorf("announcing the node: %w", err))
		}
	})
	return r, nil
}

// Check is nil while the node is ready and connected.
func (w *Worldrouter) Check() error {
	if err := w.CheckReady(); err != nil {
		return err
	}
	w.mu.Lock()
	r := w.running
	w.mu.Unlock()
	if r == nil {
		return errors.New(lifecycle.Stopped)
	}
	if err := r.conns.Check(); err != nil {
		return err
	}
	return r.micro.Check()
}

// Drain makes the node unready. It holds nothing that would have to be handed over.
func (w *Worldrouter) Drain(context.Context) error { return w.turn(lifecycle.Draining) }

// Undrain makes it ready again.
func (w *Worldrouter) Undrain(context.Context) error { return w.turn(lifecycle.Ready) }

// turn changes the state and tells the others at once.
func (w *Worldrouter) turn(to string) error {
	changed, err := w.Move(to)
	if err != nil || !changed {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running != nil {
		w.running.announcer.Pulse()
	}
	return nil
}

// Stop says goodbye and closes the connections.
func (w *Worldrouter) Stop(context.Context) error {
	_, err := w.Move(lifecycle.Stopped)
	w.mu.Lock()
	r := w.running
	w.running = nil
	w.mu.Unlock()
	if r == nil {
		return err
	}
	r.cancel()
	r.wg.Wait() // its last beacon says "stopped", on a connection that is still open
	err = errors.Join(err, r.micro.Stop(), r.observed.Unregister())
	r.conns.Close()
	return err
}
