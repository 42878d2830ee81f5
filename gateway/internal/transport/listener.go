package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/shared/fault"
)

// Limits of the HTTP side, which serves upgrades and small pages.
const (
	maxHeaderBytes  = 16 << 10
	httpIdle        = 60 * time.Second
	httpWrite       = 30 * time.Second
	stopLinger      = time.Second            // of Stop, for clients that have been told everything and do not hang up
	originLogBurst  = 10                     // refused origins that are logged at first
	originLogEvery  = 10 * time.Second       // and then at most one in this time
	maxLoggedOrigin = 256                    // bytes
	acceptPause     = 100 * time.Millisecond // after a failed accept, most often for want of descriptors
)

// keepAlive finds peers that vanished without a word in about two minutes, should nothing else.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Minute, Interval: 15 * time.Second, Count: 4}

// Listener accepts the connections of a gateway: WebSocket ones at /v1/connect and /elura/game
// and, if configured, raw TCP ones.
type Listener struct {
	cfg     Config
	hooks   Hooks
	log     *slog.Logger
	origins map[string]bool
	http    *http.Server
	line    line
	stats   counters

	refusedOrigins rate.Sometimes // logged

	leaving atomic.Bool // Stop was called: nobody is lingered for any longer than stopLinger

	failed  chan error
	conns   sync.WaitGroup // admitted connections, and goroutines of slow ones
	loops   sync.WaitGroup // accept loops
	writers sync.WaitGroup

	mu       sync.Mutex
	ws, tcp  net.Listener
	stopping bool
	head     *Conn // all connections, linked
	count    int
	perIP    map[netip.Addr]int // at most one entry for each connection
}

// New checks the configuration. It binds nothing and starts nothing.
func New(cfg Config, hooks Hooks, log *slog.Logger) (*Listener, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if hooks.Open == nil {
		return nil, errors.New("transport: Hooks.Open is nil")
	}
	l := &Listener{
		cfg: cfg, hooks: hooks, log: log,
		origins: originSet(cfg.AllowedOrigins),
		failed:  make(chan error, 2),
		perIP:   make(map[netip.Addr]int),

		refusedOrigins: rate.Sometimes{First: originLogBurst, Interval: originLogEvery},
	}
	l.line.some.L = &l.line.mu
	l.http = l.newServer()
	return l, nil
}

func (l *Listener) newServer() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/connect", l.upgrade)
	mux.HandleFunc("/elura/game", l.upgrade)
	if l.hooks.Fallback != nil {
		mux.Handle("/", l.hooks.Fallback)
	}
	return &http.Server{
		Handler:           fault.Mux(mux),
		ReadHeaderTimeout: l.cfg.HandshakeTimeout,
		ReadTimeout:       max(l.cfg.HandshakeTimeout, httpWrite),
		WriteTimeout:      httpWrite,
		IdleTimeout:       httpIdle,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(io.Discard, "", 0), // what strangers send is counted, not logged
	}
}

// Start binds the addresses and accepts connections until Stop.
func (l *Listener) Start(ctx context.Context) error {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	wsl, err := lc.Listen(ctx, "tcp", l.cfg.Listen)
	if err != nil {
		return fmt.Errorf("transport: %w", err)
	}
	var tcpl net.Listener
	if l.cfg.TCPListen != "" {
		if tcpl, err = lc.Listen(ctx, "tcp", l.cfg.TCPListen); err != nil {
			_ = wsl.Close()
			return fmt.Errorf("transport: %w", err)
		}
	}
	l.mu.Lock()
	l.ws, l.tcp = wsl, tcpl
	l.mu.Unlock()
	for range max(2, runtime.GOMAXPROCS(0)) {
		l.writers.Go(l.runWriter)
	}
	l.loops.Go(func() {
		if err := l.http.Serve(wsl); !errors.Is(err, http.ErrServerClosed) {
			l.failed <- err
		}
	})
	if tcpl != nil {
		l.loops.Go(func() { l.acceptTCP(tcpl) })
	}
	return nil
}

func (l *Listener) acceptTCP(tcpl net.Listener) {
	for {
		sock, err := tcpl.Accept()
		switch {
		case err == nil:
			l.openTCP(sock.(*net.TCPConn))
		case l.isStopping():
			return
		case errors.Is(err, net.ErrClosed):
			l.failed <- err
			return
		default:
			l.log.Warn("accept failed", "listener", ListenerTCP, "error", err)
			<-time.After(acceptPause)
		}
	}
}

func (l *Listener) openTCP(sock *net.TCPConn) {
	ip := remoteIP(sock.RemoteAddr().String())
	if l.admit(ip) != nil {
		_ = sock.Close()
		return
	}
	if err := l.open(sock, ip, frame.ELR2, true, nil); err != nil {
		l.log.Warn("connection lost at once", "listener", ListenerTCP, "error", err)
	}
}

// admit reserves a place for a connection of that address, or counts the refusal.
func (l *Listener) admit(ip netip.Addr) *fault.Error {
	var refusal *fault.Error
	if l.hooks.Refuse != nil {
		refusal = l.hooks.Refuse(ip)
	}
	l.mu.Lock()
	switch {
	case refusal != nil:
	case l.stopping, l.cfg.MaxConnections > 0 && l.count >= l.cfg.MaxConnections:
		refusal = fault.ErrUnavailable
	case l.cfg.MaxConnectionsPerIP > 0 && l.perIP[ip] >= l.cfg.MaxConnectionsPerIP:
		refusal = errPerIP
	default:
		l.perIP[ip]++
		l.count++
		l.conns.Add(1) // under the lock, so never after Stop has begun to wait
	}
	l.mu.Unlock()
	if refusal != nil {
		l.stats.refused.Add(1)
	}
	return refusal
}

var errPerIP = fault.New(fault.RateLimited, "too many connections from this address")

// release gives back what admit reserved, when nothing came of it.
func (l *Listener) release(ip netip.Addr) {
	defer l.conns.Done()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releaseLocked(ip)
}

func (l *Listener) releaseLocked(ip netip.Addr) {
	l.count--
	if l.perIP[ip]--; l.perIP[ip] <= 0 {
		delete(l.perIP, ip)
	}
}

// open makes a connection of an admitted socket, and gives it its goroutine: a fresh one, whose
// stack has not grown with the work of the handshake. It takes over the socket in any case.
func (l *Listener) open(sock *net.TCPConn, ip netip.Addr, codec frame.Codec, stream bool, early []byte) error {
	c, err := newConn(l, sock, ip, codec, stream)
	if err != nil {
		_ = sock.Close()
		l.release(ip)
		return err
	}
	c.events = l.hooks.Open(c)
	l.mu.Lock()
	if c.next = l.head; c.next != nil {
		c.next.prev = c
	}
	l.head = c
	stopping := l.stopping
	l.mu.Unlock()
	l.stats.accepted.Add(1)
	if stopping { // Stop may not have seen it
		c.Close(fault.CloseDraining)
	}
	go func() {
		defer l.conns.Done()
		c.serve(early)
	}()
	return nil
}

// forget unlinks a connection whose socket is closed.
func (l *Listener) forget(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.prev != nil {
		c.prev.next = c.next
	} else if l.head == c {
		l.head = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.prev, c.next = nil, nil
	l.releaseLocked(c.ip)
}

// Addr is the bound address of the WebSocket listener; nil before Start.
func (l *Listener) Addr() net.Addr { return l.addr(&l.ws) }

// TCPAddr is the bound address of the raw TCP listener; nil when it is off or before Start.
func (l *Listener) TCPAddr() net.Addr { return l.addr(&l.tcp) }

func (l *Listener) addr(of *net.Listener) net.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	if *of == nil {
		return nil
	}
	return (*of).Addr()
}

// Failed yields the error of a listener that stopped accepting by itself.
func (l *Listener) Failed() <-chan error { return l.failed }

// Connections is the number of connections now.
func (l *Listener) Connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

func (l *Listener) isStopping() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stopping
}

func (l *Listener) snapshot() []*Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*Conn, 0, l.count)
	for c := l.head; c != nil; c = c.next {
		all = append(all, c)
	}
	return all
}

// Stop stops accepting, closes what is still open with 4000, and waits until every connection is
// gone: up to CloseTimeout for what is still to be written, and a second for clients that have been
// told everything and only have to hang up; when ctx ends, what remains is cut and the error is ctx's. Later calls do nothing.
func (l *Listener) Stop(ctx context.Context) error {
	l.mu.Lock()
	again := l.stopping || l.ws == nil
	l.stopping = true
	tcpl := l.tcp
	l.mu.Unlock()
	if again {
		return nil
	}
	_ = l.http.Close() // hijacked connections are ours, and stay
	if tcpl != nil {
		_ = tcpl.Close()
	}
	l.loops.Wait()
	l.leaving.Store(true)
	for _, c := range l.snapshot() {
		c.Close(fault.CloseDraining)
		c.hurry()
	}
	gone := make(chan struct{})
	go func() {
		l.conns.Wait()
		close(gone)
	}()
	var err error
	select {
	case <-gone:
	case <-ctx.Done():
		err = ctx.Err()
		for _, c := range l.snapshot() {
			c.shut()
		}
		<-gone
	}
	l.line.end()
	l.writers.Wait()
	return err
}

func remoteIP(addr string) netip.Addr {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}
