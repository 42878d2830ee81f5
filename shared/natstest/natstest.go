package natstest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/embedded"
	"github.com/switchyard-io/switchyard/shared/natsconn"
)

const (
	loopbackAny  = "127.0.0.1:0"
	openTimeout  = 10 * time.Second
	leaderWait   = 30 * time.Second
	pollInterval = 5 * time.Millisecond
)

// Server is a single server with JetStream and the suite's mappings, in the test's directory.
func Server(t testing.TB) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(embedded.Config{Listen: loopbackAny, DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

// Servers is a cluster. It is used from the test's goroutine only.
type Servers struct {
	t       testing.TB
	configs []embedded.Config
	nodes   []*embedded.Server
}

// Cluster starts n servers with JetStream and waits until all are in step with a leader. A cluster
// of one is a single server that can be stopped and started again.
func Cluster(t testing.TB, n int) *Servers {
	t.Helper()
	addrs := FreeAddrs(t, 2*n)
	routes := addrs[n:]
	c := &Servers{t: t, nodes: make([]*embedded.Server, n)}
	for i := range n {
		cfg := embedded.Config{Listen: addrs[i], DataDir: t.TempDir(), Name: fmt.Sprintf("server-%d", i+1)}
		if n > 1 {
			cfg.Cluster = &embedded.Cluster{Name: "test", Listen: routes[i], Routes: routes}
		}
		c.configs = append(c.configs, cfg)
	}
	t.Cleanup(func() {
		for i := range c.nodes {
			c.Stop(i)
		}
	})
	for i := range n {
		c.start(i)
	}
	c.AwaitLeader()
	return c
}

func (c *Servers) start(i int) {
	c.t.Helper()
	s, err := embedded.Start(c.configs[i])
	if err != nil {
		c.t.Fatal(err)
	}
	c.nodes[i] = s
}

// URL is the comma list of all servers, the stopped ones too.
func (c *Servers) URL() string {
	urls := make([]string, len(c.configs))
	for i, cfg := range c.configs {
		urls[i] = "nats://" + cfg.Listen
	}
	return strings.Join(urls, ",")
}

// Node is the i-th server; nil while it is stopped.
func (c *Servers) Node(i int) *embedded.Server { return c.nodes[i] }

// Leader is the index of the server that leads JetStream's meta group, or -1.
func (c *Servers) Leader() int {
	for i, s := range c.nodes {
		if s != nil && s.JetStreamLeader() {
			return i
		}
	}
	return -1
}

// AwaitLeader waits until there is a leader and every running server is in step with it.
func (c *Servers) AwaitLeader() {
	c.t.Helper()
	Eventually(c.t, leaderWait, "JetStream has a leader", func() bool {
		for _, s := range c.nodes {
			if s != nil && !s.JetStreamReady() {
				return false
			}
		}
		return c.Leader() >= 0
	})
}

// Stop ends the i-th server, if it runs.
func (c *Servers) Stop(i int) {
	if s := c.nodes[i]; s != nil {
		s.Shutdown()
		c.nodes[i] = nil
	}
}

// Restart starts a stopped server again, at the same addresses with the same data.
func (c *Servers) Restart(i int) {
	c.t.Helper()
	c.start(i)
}

// Conn is a plain connection.
func Conn(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.Name(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// Conns are a service's connections.
func Conns(t testing.TB, url string) *natsconn.Conns {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	c, err := natsconn.Open(ctx, natsconn.Config{URL: url}, t.Name(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Eventually waits until cond is true, asking every few milliseconds, and fails the test after d,
// naming what it waited for.
func Eventually(t testing.TB, d time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited %v in vain: %s", d, what)
		}
	}
}
