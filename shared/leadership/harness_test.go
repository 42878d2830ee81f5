package leadership

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/membership"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/slot"
)

func TestMain(m *testing.M) {
	maybeChild()
	goleak.VerifyTestMain(m)
}

// world is a cluster of leading nodes under test. It checks, in every test, that no term of a slot
// is ever won twice.
type world struct {
	t      *testing.T
	url    string
	layout slot.Layout

	mu  sync.Mutex
	won map[[2]uint64]Owner // (slot, term) -> winner
}

func newWorld(t *testing.T, url string, logical int) *world {
	t.Helper()
	js, err := natsconn.JetStream(natstest.Conn(t, url))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	layout, err := Setup(ctx, js, 0, logical)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, url: url, layout: layout, won: map[[2]uint64]Owner{}}
}

// member is one node of a world.
type member struct {
	w       *world
	node    lifecycle.Node
	nc      *nats.Conn
	proxy   *proxy
	tracker *membership.Tracker
	table   *Table
	engine  *Engine
	stop    func()

	mu        sync.Mutex
	events    []event
	releasing int
}

// event is one call of the handler.
type event struct {
	id    slot.ID
	entry Entry // zero: lost
	fresh bool
	why   Loss

	settled bool // the view was, when the slot was acquired
}

func (m *member) owner() Owner { return Owner{m.node.ID, m.node.Boot} }

func (m *member) Acquired(id slot.ID, e Entry, fresh bool) {
	m.mu.Lock()
	m.events = append(m.events, event{id: id, entry: e, fresh: fresh, settled: m.engine.settled()})
	m.mu.Unlock()
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	k := [2]uint64{uint64(id), e.Term}
	if first, ok := m.w.won[k]; ok && (fresh || first != m.owner()) {
		m.w.t.Errorf("slot %d: term %d won by %v and by %v", id, e.Term, first, m.owner())
	}
	m.w.won[k] = m.owner()
}

func (m *member) Lost(id slot.ID, why Loss) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, event{id: id, why: why})
}

func (m *member) Releasing(_ context.Context, id slot.ID, e Entry, _ Owner) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.releasing++
	if held, ok := m.engine.Held(id); !ok || held != e {
		m.w.t.Errorf("slot %d: released before the handler was asked", id)
	}
}

func (m *member) losses() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, ev := range m.events {
		if ev.why != "" {
			n++
		}
	}
	return n
}

// serving is how many slots the member serves.
func (m *member) serving() int { return m.engine.servingCount() }

type option func(*EngineConfig)

func shortLease(c *EngineConfig) { c.LeaseTTL, c.RenewEvery = 3*time.Second, 500*time.Millisecond }

// defaultView moves slots as late as the default says.
func defaultView(c *EngineConfig) { c.StableFor = 0 }

// start brings a member up, behind a proxy of its own so that its network can be broken.
func (w *world) start(id string, opts ...option) *member {
	w.t.Helper()
	return w.startAt(w.url, id, opts...)
}

func (w *world) startAt(url, id string, opts ...option) *member {
	w.t.Helper()
	m := &member{w: w, node: lifecycle.NewNode("authority", id)}
	if url == w.url && !isList(url) {
		m.proxy = newProxy(w.t, url)
		url = m.proxy.url()
	}
	var err error
	m.nc, err = nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
		nats.ReconnectJitter(20*time.Millisecond, 20*time.Millisecond), nats.ReconnectBufSize(-1),
		nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2), nats.IgnoreDiscoveredServers())
	if err != nil {
		w.t.Fatal(err)
	}
	m.tracker = membership.NewTracker(m.nc, membership.Config{})
	if m.table, err = NewTable(TableConfig{}, w.layout, m.nc, m.tracker); err != nil {
		w.t.Fatal(err)
	}
	var announcer *membership.Announcer
	cfg := EngineConfig{Pulse: func() { announcer.Pulse() }, Log: testLog(id), StableFor: 500 * time.Millisecond}
	for _, o := range opts {
		o(&cfg)
	}
	if m.engine, err = NewEngine(cfg, m.node, m.nc, m.table, m); err != nil {
		w.t.Fatal(err)
	}
	announcer = membership.NewAnnouncer(m.nc, m.node, m.engine.Claims)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{m.tracker.Run, m.table.Run, m.engine.Run, announcer.Run} {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				w.t.Error(err)
			}
		})
	}
	m.stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		m.nc.Close()
	})
	w.t.Cleanup(m.stop)
	return m
}

// crash is the end of the process, as others see it: the connection is gone.
func (m *member) crash() { m.nc.Close() }

func (m *member) drain(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := m.engine.Drain(ctx); err != nil {
		t.Fatal(err)
	}
}

// balanced waits until the members serve all slots, each its share.
func (w *world) balanced(d time.Duration, members ...*member) {
	w.t.Helper()
	natstest.Eventually(w.t, d, "slots are balanced", func() bool {
		total, share := 0, (w.layout.Logical+len(members)-1)/len(members)
		for _, m := range members {
			n := m.serving()
			if n > share {
				return false
			}
			total += n
		}
		return total == w.layout.Logical
	})
}

func testLog(id string) *slog.Logger {
	if !testing.Verbose() || os.Getenv("LEADERSHIP_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", id)
}

func isList(url string) bool {
	for _, c := range url {
		if c == ',' {
			return true
		}
	}
	return false
}

// proxy carries a member's connections to the server, until it stalls or cuts them.
type proxy struct {
	target string
	l      net.Listener
	wg     sync.WaitGroup

	mu    sync.Mutex
	open  *sync.Cond // on mu: not stalled any more
	stall bool
	shut  bool // refuses new connections
	conns map[net.Conn]bool
}

func newProxy(t *testing.T, url string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{target: url[len("nats://"):], l: l, conns: map[net.Conn]bool{}}
	p.open = sync.NewCond(&p.mu)
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.stalled(false)
		p.cut(true)
		p.wg.Wait()
	})
	return p
}

func (p *proxy) url() string { return fmt.Sprintf("nats://%s", p.l.Addr()) }

func (p *proxy) accept() {
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		p.mu.Lock()
		if err != nil || p.shut {
			p.mu.Unlock()
			_ = in.Close()
			if out != nil {
				_ = out.Close()
			}
			continue
		}
		p.conns[in], p.conns[out] = true, true
		p.mu.Unlock()
		p.wg.Go(func() { p.pipe(in, out) })
		p.wg.Go(func() { p.pipe(out, in) })
	}
}

func (p *proxy) pipe(from, to net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		for p.stall {
			p.open.Wait()
		}
		p.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// stalled holds everything back, or lets it go on.
func (p *proxy) stalled(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stall = yes
	p.open.Broadcast()
}

// cut closes all connections, and refuses new ones if shut.
func (p *proxy) cut(shut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shut = shut
	for c := range p.conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}
