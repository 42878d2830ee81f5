package authority

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/telemetry"
)

const scope = "github.com/switchyard-io/switchyard/authority"

// stopGrace bounds how long Stop waits for calls that are under way.
const stopGrace = 2 * time.Second

// Authority is one node. It implements lifecycle.Service.
type Authority struct {
	lifecycle.Machine
	cfg  Config
	node lifecycle.Node
	nats natsconn.Config
	tel  *telemetry.Telemetry
	log  *slog.Logger

	// complete is set once every slot had a leader that had finished its rebuild: only then is a
	// starting node ready.
	complete atomic.Bool

	mu      sync.Mutex // guards what Start makes and Stop takes
	running *parts     // nil before Start and after Stop
}

// New checks the configuration. It connects to nothing and starts nothing.
func New(cfg Config, node lifecycle.Node, nats natsconn.Config, tel *telemetry.Telemetry, log *slog.Logger) (*Authority, error) {
	if err := errors.Join(cfg.Validate(), nats.Validate(), node.Validate()); err != nil {
		return nil, err
	}
	return &Authority{cfg: cfg, node: node, nats: nats, tel: tel, log: log}, nil
}

// Node names the instance and its life.
func (a *Authority) Node() lifecycle.Node { return a.node }

// Start connects and joins the cluster. It returns when the node claims slots; Check says when
// all slots are led.
func (a *Authority) Start(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.running != nil || a.State() != lifecycle.Starting {
		return fmt.Errorf("%w: started before", lifecycle.ErrTransition)
	}
	p, err := a.build(ctx)
	if p != nil {
		a.running = p // Stop takes down what was made, also after an error
	}
	if err != nil {
		return err
	}
	if _, err = a.Move(lifecycle.Ready); err == nil {
		p.announcer.Pulse()
	}
	return err
}

// parts returns what runs, or nil.
func (a *Authority) parts() *parts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running
}

// Check is nil while the node is connected, holds its lease and serves backends; a starting node
// also waits until every slot of the cluster is led and rebuilt.
func (a *Authority) Check() error {
	if err := a.CheckReady(); err != nil {
		return err
	}
	p := a.parts()
	if p == nil {
		return errors.New(lifecycle.Stopped)
	}
	if err := errors.Join(p.conns.Check(), p.engine.Check(), p.micro.Check()); err != nil {
		return err
	}
	if !a.complete.Load() {
		return errors.New("slots: not all are led yet")
	}
	return nil
}

// Drain makes the node unready and gives all its slots away. Backends are still served.
func (a *Authority) Drain(ctx context.Context) error {
	if _, err := a.Move(lifecycle.Draining); err != nil {
		return err
	}
	p := a.parts()
	if p == nil {
		return nil
	}
	p.announcer.Pulse()
	return p.engine.Drain(ctx)
}

// Undrain makes the node claim again.
func (a *Authority) Undrain(context.Context) error {
	changed, err := a.Move(lifecycle.Ready)
	if err != nil || !changed {
		return err
	}
	if p := a.parts(); p != nil {
		p.engine.Undrain()
		p.announcer.Pulse()
	}
	return nil
}

// Stop ends everything that runs: backends first, then leadership, then what delivers, and the
// beacons last, so that "stopped" is true when it is said.
func (a *Authority) Stop(ctx context.Context) error {
	_, err := a.Move(lifecycle.Stopped)
	a.mu.Lock()
	p := a.running
	a.running = nil
	a.mu.Unlock()
	if p == nil {
		return err
	}
	return errors.Join(err, p.stop(ctx))
}
