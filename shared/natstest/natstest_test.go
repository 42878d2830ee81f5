package natstest_test

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/shared/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestClusterSurvivesItsLeader(t *testing.T) {
	c := natstest.Cluster(t, 3)
	if n := len(strings.Split(c.URL(), ",")); n != 3 {
		t.Fatalf("%d servers in %s", n, c.URL())
	}
	nc := natstest.Conn(t, c.URL())
	old := c.Leader()
	c.Stop(old)
	if c.Node(old) != nil {
		t.Fatal("a stopped server is still there")
	}
	c.AwaitLeader()
	if c.Leader() == old {
		t.Fatal("the stopped server leads")
	}
	natstest.Eventually(t, 10*time.Second, "connected to another", func() bool { return nc.IsConnected() })
	c.Restart(old)
	c.AwaitLeader()
}

func TestConnections(t *testing.T) {
	s := natstest.Server(t)
	if !s.JetStreamReady() || !s.JetStreamLeader() {
		t.Fatal("a single server has no JetStream")
	}
	if err := natstest.Conns(t, s.URL()).Check(); err != nil {
		t.Fatal(err)
	}
}
