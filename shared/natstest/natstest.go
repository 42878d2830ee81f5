package natstest

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/switchyard-io/switchyard/shared/embedded"
	"github.com/switchyard-io/switchyard/shared/natsconn"
)

// Server is a single server with JetStream and the suite's mappings, in the test's directory.
func Server(t testing.TB) *embedded.Server { panic("body follows") }

// Servers is a cluster.
type Servers struct{ nodes []*embedded.Server }

// Cluster starts n servers with JetStream and waits until it has a leader.
func Cluster(t testing.TB, n int) *Servers { panic("body follows") }

// URL is the comma list of all servers.
func (s *Servers) URL() string { panic("body follows") }

// Node is the i-th server; nil while it is stopped.
func (s *Servers) Node(i int) *embedded.Server { panic("body follows") }

// Stop ends the i-th server.
func (s *Servers) Stop(i int) { panic("body follows") }

// Restart starts a stopped server again, at the same addresses with the same data.
func (s *Servers) Restart(i int) { panic("body follows") }

// Conn is a plain connection.
func Conn(t testing.TB, url string) *nats.Conn { panic("body follows") }

// Conns are a service's connections.
func Conns(t testing.TB, url string) *natsconn.Conns { panic("body follows") }

// Eventually waits until cond is true, polling, and fails the test after d, naming what.
func Eventually(t testing.TB, d time.Duration, what string, cond func() bool) { panic("body follows") }
