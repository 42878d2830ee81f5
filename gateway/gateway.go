package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/switchyard-io/switchyard/gateway/internal/session"
	"github.com/switchyard-io/switchyard/gateway/internal/transport"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/telemetry"
)

// ConnectPath is where clients connect on the WebSocket listener.
const ConnectPath = "/v1/connect"

// scope names the gateway's instruments.
const scope = "github.com/switchyard-io/switchyard/gateway"

// Gateway is one instance of the service. It implements lifecycle.Service.
type Gateway struct {
	lifecycle.Machine
	cfg  Config
	node lifecycle.Node
	nats natsconn.Config
	tel  *telemetry.Telemetry
	log  *slog.Logger

	sessions *session.Registry
	listener *transport.Listener
	host     atomic.Pointer[session.Host] // once there is one, connections are let in
	refusing atomic.Bool
	pages    atomic.Pointer[http.Handler]
	draining chan struct{} // holds a token while a drain runs

	mu    sync.Mutex
	parts *parts // set by Start
}

// New checks the configuration. It connects to nothing and starts nothing.
func New(cfg Config, node lifecycle.Node, nats natsconn.Config, tel *telemetry.Telemetry, log *slog.Logger) (*Gateway, error) {
	if err := errors.Join(cfg.Validate(), nats.Validate(), node.Validate()); err != nil {
		return nil, err
	}
	g := &Gateway{cfg: cfg, node: node, nats: nats, tel: tel, log: log, draining: make(chan struct{}, 1)}
	var err error
	if g.sessions, err = newRegistry(cfg); err != nil {
		return nil, err
	}
	g.listener, err = transport.New(cfg.transport(), transport.Hooks{
		Open:     func(c *transport.Conn) transport.Events { return (*edge)(g.host.Load().Open(c)) },
		Refuse:   g.refuse,
		Fallback: http.HandlerFunc(g.page),
	}, log)
	return g, err
}

// Node names the instance and its life.
func (g *Gateway) Node() lifecycle.Node { return g.node }

// URL is the address of the WebSocket listener, "ws://host:port", after Start; clients connect at
// its ConnectPath.
func (g *Gateway) URL() string { return "ws://" + address(g.listener.Addr()) }

// TCPAddr is host:port of the raw ELR2 listener after Start; empty when it is off.
func (g *Gateway) TCPAddr() string { return address(g.listener.TCPAddr()) }

// Start connects, gets everything behind the sockets ready, and then listens. It returns when
// clients can connect, or when ctx ends. Check says when they can authenticate.
func (g *Gateway) Start(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, err := g.assemble(ctx)
	g.parts = p
	if err != nil {
		return err
	}
	g.host.Store(p.host)
	if err := g.listener.Start(ctx); err != nil {
		return err
	}
	p.goWorker(func(ctx context.Context) {
		select {
		case err := <-g.listener.Failed():
			g.Fail(fmt.Errorf("gateway listener: %w", err))
		case <-ctx.Done():
		}
	})
	if _, err := g.Move(lifecycle.Ready); err != nil {
		return err
	}
	p.announcer.Pulse()
	g.log.Info("gateway listens", "url", g.URL(), "tcp", g.TCPAddr())
	return nil
}

// Check is nil when clients can connect and authenticate.
func (g *Gateway) Check() error {
	if err := g.CheckReady(); err != nil {
		return err
	}
	g.mu.Lock()
	p := g.parts
	g.mu.Unlock()
	return p.check()
}

// Stop closes what is still open, tells the authority, and ends everything, bounded by ctx.
func (g *Gateway) Stop(ctx context.Context) error {
	if changed, err := g.Move(lifecycle.Stopped); err != nil || !changed {
		return err
	}
	g.refusing.Store(true)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.parts == nil {
		return nil
	}
	var err error
	if g.host.Load() != nil {
		err = g.listener.Stop(ctx)
	}
	return errors.Join(err, g.parts.stop(ctx))
}
