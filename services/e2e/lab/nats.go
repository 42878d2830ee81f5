package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/natstest"
)

const startTimeout = 60 * time.Second // generous: processes with the race detector on two busy cores

// NATS is a cluster of NATS server processes that run with the configuration of deploy/nats.
type NATS struct {
	Servers []*Process
	addrs   []string
}

// StartNATS starts the three servers and waits until JetStream has a leader.
func StartNATS(t testing.TB) *NATS {
	t.Helper()
	const n = 3
	conf, err := filepath.Abs(filepath.Join(root(t), "deploy", "nats", "server.conf"))
	if err != nil {
		t.Fatal(err)
	}
	ports := natstest.FreeAddrs(t, 2*n)
	cluster := &NATS{addrs: ports[:n]}
	for i := range n {
		env := []string{
			fmt.Sprintf("SY_NATS_NAME=n%d", i+1),
			"SY_NATS_LISTEN=" + ports[i],
			"SY_NATS_CLUSTER=" + ports[n+i],
			"SY_NATS_STORE=" + t.TempDir(),
		}
		for r := range n {
			env = append(env, fmt.Sprintf("SY_NATS_ROUTE_%d=nats-route://%s", r+1, ports[n+r]))
		}
		for _, user := range natsUsers {
			env = append(env, fmt.Sprintf("SY_%s_PASSWORD=%s", strings.ToUpper(user), password(user)))
		}
		cluster.Servers = append(cluster.Servers, Start(t, "nats-server", env, "-c", conf))
	}
	Eventually(t, startTimeout, func() error {
		nc, err := nats.Connect(cluster.URL("operator"), nats.Timeout(time.Second))
		if err != nil {
			return err
		}
		defer nc.Close()
		_, err = nc.Request("$JS.API.INFO", nil, time.Second)
		return err
	})
	return cluster
}

// natsUsers are the users of deploy/nats/accounts.conf.
var natsUsers = []string{"gateway", "authority", "ticketing", "worldrouter", "backend", "operator", "sys"}

func password(user string) string { return "lab-" + user }

// URL is the comma list of all servers, for one of the users.
func (n *NATS) URL(user string) string {
	urls := make([]string, len(n.addrs))
	for i, addr := range n.addrs {
		urls[i] = fmt.Sprintf("nats://%s:%s@%s", user, password(user), addr)
	}
	return strings.Join(urls, ",")
}

// root is the top of the checkout.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("not inside a checkout")
		}
		dir = parent
	}
}
