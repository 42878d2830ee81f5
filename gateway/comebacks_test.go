package gateway_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/gateway"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/membership"
	"github.com/switchyard-io/switchyard/shared/natstest"
)

// quiet has no session touched by itself: what is told again was asked for.
func quiet(c *gateway.Config) { c.TouchInterval = time.Hour }

// TestI7_AGatewayThatOnlySeemedGoneTellsAllAgain: a leader dropped its routes and heard it again, and
// no connection of the gateway was ever away.
func TestI7_AGatewayThatOnlySeemedGoneTellsAllAgain(t *testing.T) {
	s := newSite(t)
	g := s.gateway(quiet)
	s.mustLogin(g, "alice", "phone")
	for range 2 {
		s.authority.left()
		s.authority.back(g.Node())
		natstest.Eventually(t, within, "the route is back", func() bool { return len(s.authority.online(alice)) == 1 })
	}
}

// TestI7_AControlConnectionThatWasAway: the beacons are missing for so long that the leader takes the
// gateway for gone. Its sockets live on, its clients do nothing, and when the beacons are back so
// are its routes.
func TestI7_AControlConnectionThatWasAway(t *testing.T) {
	s := newSite(t)
	p := newControlProxy(t, s.url)
	s.follow()
	s.url = p.url()
	g := s.gateway(quiet)
	d := s.mustLogin(g, "alice", "phone")
	p.cut(true)
	natstest.Eventually(t, within, "its routes are gone", func() bool { return len(s.authority.online(alice)) == 0 })
	p.cut(false)
	begin := time.Now()
	natstest.Eventually(t, within, "the route is back", func() bool { return len(s.authority.online(alice)) == 1 })
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("it took %s", took)
	}
	if d.end() != nil {
		t.Error("the client was dropped")
	}
}

// follow has the authority hear the gateways' beacons as a real one does.
func (s *site) follow() {
	tracker := membership.NewTracker(s.nc, membership.Config{})
	cancel := tracker.Subscribe(func(ev membership.Event) {
		switch {
		case ev.Node.Service != lifecycle.Gateway:
		case ev.Kind == membership.Left:
			s.authority.left()
		case ev.Kind == membership.Joined && ev.Beacon.Sequence > 1:
			s.authority.back(lifecycle.Node{ID: ev.Node.ID, Boot: ev.Node.Boot})
		}
	})
	ctx, end := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := tracker.Run(ctx); err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(func() { cancel(); end(); wg.Wait() })
}

// controlProxy carries connections to a NATS server, and can cut those that are control connections
// by the name that they give.
type controlProxy struct {
	target string
	l      net.Listener
	wg     sync.WaitGroup

	mu      sync.Mutex
	refuses bool
	control map[net.Conn]bool
	all     map[net.Conn]bool
}

func newControlProxy(t *testing.T, url string) *controlProxy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &controlProxy{target: strings.TrimPrefix(url, "nats://"), l: l, control: map[net.Conn]bool{}, all: map[net.Conn]bool{}}
	p.wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.carry(in) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for c := range p.all {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *controlProxy) url() string { return "nats://" + p.l.Addr().String() }

// cut closes the control connections and lets no new one in, or lets them in again.
func (p *controlProxy) cut(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = yes
	for c := range p.control {
		_ = c.Close()
		delete(p.control, c)
	}
}

func (p *controlProxy) carry(in net.Conn) {
	out, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = in.Close()
		return
	}
	p.mu.Lock()
	p.all[in], p.all[out] = true, true
	p.mu.Unlock()
	p.wg.Go(func() { pipe(out, in, func([]byte) bool { return true }) })
	first := true
	pipe(in, out, func(b []byte) bool {
		if !first { // CONNECT comes first, whole
			return true
		}
		first = false
		p.mu.Lock()
		defer p.mu.Unlock()
		if !bytes.Contains(b, []byte(` control"`)) {
			return true
		}
		p.control[in] = true
		return !p.refuses
	})
}

func pipe(from, to net.Conn, pass func([]byte) bool) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !pass(buf[:n]) {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
