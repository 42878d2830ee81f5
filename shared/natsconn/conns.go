package natsconn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// DrainTimeout bounds Close: how long what is in flight may take to finish.
const DrainTimeout = 5 * time.Second

const (
	dialTimeout = 2 * time.Second
	// reasonWait bounds the wait for the reason of a failed connect, which NATS tells by a callback.
	reasonWait = time.Second
	// maxPingsOut unanswered pings cut the connection.
	maxPingsOut = 2
	controlPing = time.Second
	dataPing    = 2 * time.Second
	controlWait = 100 * time.Millisecond // between rounds over all servers, plus as much jitter
	dataWait    = 250 * time.Millisecond
	// noBuffer makes a publish fail while disconnected.
	noBuffer = -1
	// dataBuffer holds publishes while the data connection moves to another server, in bytes.
	dataBuffer = 8 << 20
)

// ErrNotConnected is wrapped by Open and Check while a connection is away.
var ErrNotConnected = errors.New("not connected to NATS")

// Conns are the two connections of one service life.
type Conns struct {
	// Control carries leases, beacons and fences. It pings each second, notices a hung server
	// within 3 s, and buffers nothing while it is away: a publish fails at once instead.
	Control *nats.Conn
	// Data carries calls, pushes and micro endpoints. While it changes servers it holds up to
	// 8 MiB of publishes.
	Data *nats.Conn

	control, data *watch
}

// watch counts what happens on one connection.
type watch struct {
	name          string
	log           *slog.Logger
	disconnects   atomic.Int64
	slowConsumers atomic.Int64
	asyncErrors   atomic.Int64
	lameDucks     atomic.Int64
	lastErr       atomic.Pointer[error]
	connected     chan struct{} // gets one token at the first connect
	failed        chan struct{} // gets one token when lastErr is set
	closed        chan struct{} // closed with the connection
}

// Open connects both under the name given (as servers list it), and retries until ctx ends. Once
// open, they reconnect for ever. Errors wrap ErrConfig or ErrNotConnected with the last reason.
func Open(ctx context.Context, cfg Config, name string, log *slog.Logger) (*Conns, error) {
	base, err := cfg.options()
	if err != nil {
		return nil, err
	}
	c := &Conns{control: newWatch("control", log), data: newWatch("data", log)}
	c.Control, err = c.control.connect(ctx, cfg.URL, append(base, nats.Name(name+" control"),
		nats.PingInterval(controlPing), nats.ReconnectBufSize(noBuffer),
		nats.ReconnectWait(controlWait), nats.ReconnectJitter(controlWait, controlWait)))
	if err != nil {
		return nil, err
	}
	c.Data, err = c.data.connect(ctx, cfg.URL, append(base, nats.Name(name+" data"),
		nats.PingInterval(dataPing), nats.ReconnectBufSize(dataBuffer),
		nats.ReconnectWait(dataWait), nats.ReconnectJitter(dataWait, dataWait)))
	if err != nil {
		c.Control.Close()
		return nil, err
	}
	return c, nil
}

// options are those that both connections share.
func (c Config) options() ([]nats.Option, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	// A refused login is retried as well: credentials are rotated under a running process.
	opts := []nats.Option{nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true), nats.IgnoreAuthErrorAbort(),
		nats.MaxPingsOutstanding(maxPingsOut), nats.Timeout(dialTimeout), nats.DrainTimeout(DrainTimeout)}
	if c.InboxPrefix != "" {
		opts = append(opts, nats.CustomInboxPrefix(c.InboxPrefix))
	}
	if c.Creds != "" {
		opts = append(opts, nats.UserCredentials(c.Creds))
	}
	if c.NKeySeedFile != "" {
		o, err := nats.NkeyOptionFromSeed(c.NKeySeedFile)
		if err != nil {
			return nil, fmt.Errorf("%w: NATS_NKEY_SEED_FILE: %w", ErrConfig, err)
		}
		opts = append(opts, o)
	}
	if c.TLSCA != "" {
		opts = append(opts, nats.RootCAs(c.TLSCA))
	}
	if c.TLSCert != "" {
		opts = append(opts, nats.ClientCert(c.TLSCert, c.TLSKey))
	}
	return opts[:len(opts):len(opts)], nil
}

func newWatch(name string, log *slog.Logger) *watch {
	return &watch{name: name, log: log.With("connection", name), connected: make(chan struct{}, 1),
		failed: make(chan struct{}, 1), closed: make(chan struct{})}
}

func (w *watch) connect(ctx context.Context, url string, opts []nats.Option) (*nats.Conn, error) {
	nc, err := nats.Connect(url, append(opts, w.handlers()...)...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	select {
	case <-w.connected:
		return nc, nil
	case <-ctx.Done():
		w.awaitReason()
		err := w.notConnected(nc, context.Cause(ctx))
		nc.Close()
		return nil, err
	}
}

// awaitReason returns when it is known why the connection is away: a first connect that failed is
// always told, but perhaps a moment after ctx has ended.
func (w *watch) awaitReason() {
	timer := time.NewTimer(reasonWait)
	defer timer.Stop()
	select {
	case <-w.failed:
	case <-w.connected: // just now
	case <-timer.C:
	}
}

// fail keeps why the connection is away. A connection that is closed on purpose has no reason, and
// takes none away.
func (w *watch) fail(err error) {
	if err == nil {
		return
	}
	w.lastErr.Store(&err)
	select {
	case w.failed <- struct{}{}:
	default:
	}
}

// notConnected prefers what the server or the dialer said last over the reason given. A refused
// login is in LastError only, which is cleared by the next connect that gets less far.
func (w *watch) notConnected(nc *nats.Conn, reason error) error {
	if last := nc.LastError(); last != nil {
		reason = last
	} else if last := w.lastErr.Load(); last != nil {
		reason = *last
	}
	if reason == nil {
		return fmt.Errorf("%w (%s)", ErrNotConnected, w.name)
	}
	return fmt.Errorf("%w (%s): %w", ErrNotConnected, w.name, reason)
}

func (w *watch) handlers() []nats.Option {
	return []nats.Option{
		nats.ConnectHandler(func(*nats.Conn) { w.connected <- struct{}{} }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { w.fail(err) }),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			w.fail(err)
			if nc.IsClosed() || nc.IsDraining() {
				return
			}
			w.disconnects.Add(1)
			w.log.Warn("nats connection lost", "error", err)
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			w.log.Info("nats connection back", "server", nc.ConnectedUrlRedacted())
		}),
		nats.LameDuckModeHandler(func(nc *nats.Conn) {
			w.lameDucks.Add(1)
			w.log.Info("nats server goes away", "server", nc.ConnectedUrlRedacted())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) { w.asyncError(sub, err) }),
		nats.ClosedHandler(func(*nats.Conn) { close(w.closed) }),
	}
}

func (w *watch) asyncError(sub *nats.Subscription, err error) {
	if sub == nil {
		w.asyncErrors.Add(1)
		w.log.Warn("nats error", "error", err)
		return
	}
	if !errors.Is(err, nats.ErrSlowConsumer) {
		w.asyncErrors.Add(1)
		w.log.Warn("nats subscription error", "subject", sub.Subject, "error", err)
		return
	}
	w.slowConsumers.Add(1)
	dropped, _ := sub.Dropped() // fails on a closed subscription only
	w.log.Warn("nats messages dropped: the subscription is slow", "subject", sub.Subject, "dropped", dropped)
}

// Check is nil while both are connected, else wraps ErrNotConnected. It does not block.
func (c *Conns) Check() error {
	if !c.Control.IsConnected() {
		return c.control.notConnected(c.Control, nil)
	}
	if !c.Data.IsConnected() {
		return c.data.notConnected(c.Data, nil)
	}
	return nil
}

// SlowConsumers is how often a subscription of either connection began to drop messages.
func (c *Conns) SlowConsumers() int64 {
	return c.control.slowConsumers.Load() + c.data.slowConsumers.Load()
}

// Observe registers what the connections count with the meter. Unregister what it returns before
// the connections are forgotten.
func (c *Conns) Observe(m metric.Meter) (metric.Registration, error) {
	counters := []struct {
		name, text string
		value      func(*watch) int64
	}{
		{"switchyard.nats.disconnects", "connections lost", func(w *watch) int64 { return w.disconnects.Load() }},
		{"switchyard.nats.slow_consumers", "times that a subscription began to drop messages", func(w *watch) int64 { return w.slowConsumers.Load() }},
		{"switchyard.nats.errors", "other asynchronous errors", func(w *watch) int64 { return w.asyncErrors.Load() }},
		{"switchyard.nats.lame_ducks", "servers that announced their end", func(w *watch) int64 { return w.lameDucks.Load() }},
	}
	instruments := make([]metric.Int64ObservableCounter, len(counters))
	observables := make([]metric.Observable, len(counters))
	for i, k := range counters {
		o, err := m.Int64ObservableCounter(k.name, metric.WithDescription(k.text))
		if err != nil {
			return nil, fmt.Errorf("counter %s: %w", k.name, err)
		}
		instruments[i], observables[i] = o, o
	}
	return m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, w := range []*watch{c.control, c.data} {
			for i, k := range counters {
				o.ObserveInt64(instruments[i], k.value(w), metric.WithAttributes(attribute.String("connection", w.name)))
			}
		}
		return nil
	}, observables...)
}

// Close drains both at the same time, at most DrainTimeout, and closes them. Further calls do nothing.
func (c *Conns) Close() {
	timeout := time.NewTimer(DrainTimeout)
	defer timeout.Stop()
	for _, nc := range []*nats.Conn{c.Data, c.Control} {
		if err := nc.Drain(); err != nil { // closed, or away: nothing to drain
			nc.Close()
		}
	}
	for _, w := range []*watch{c.data, c.control} {
		select {
		case <-w.closed:
		case <-timeout.C:
			c.Data.Close()
			c.Control.Close()
			return
		}
	}
}
