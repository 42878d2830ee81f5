package worldrouter_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"
	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/telemetry"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
	"github.com/switchyard-io/switchyard/worldrouter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLife(t *testing.T) {
	server := natstest.Server(t)
	observer := natstest.Conn(t, server.URL())
	node := lifecycle.NewNode(lifecycle.Worldrouter, "wr-1")
	beacons, err := observer.SubscribeSync(subject.Beacon(node.Service, node.ID, node.Boot))
	if err != nil {
		t.Fatal(err)
	}
	awaitBeacon := func(state string) {
		t.Helper()
		for {
			m, err := beacons.NextMsg(10 * time.Second)
			if err != nil {
				t.Fatalf("beacon %q: %v", state, err)
			}
			var b wirepb.Beacon
			if err := b.UnmarshalVT(m.Data); err != nil {
				t.Fatal(err)
			}
			if b.State == state {
				return
			}
		}
	}
	w, err := worldrouter.New(worldrouter.Config{}, node, natsconn.Config{URL: server.URL()}, telemetry.Noop(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var _ lifecycle.Service = w
	if w.Check() == nil {
		t.Fatal("ready before it started")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.Check(); err != nil {
		t.Fatal(err)
	}
	awaitBeacon(lifecycle.Ready)

	ping, err := observer.Request("$SRV.PING.worldrouter", nil, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var p micro.Ping
	if err := json.Unmarshal(ping.Data, &p); err != nil || p.Metadata["node"] != "wr-1" || p.Metadata["boot"] != node.Boot {
		t.Fatalf("ping: %v %+v", err, p)
	}

	if err := w.Drain(ctx); err != nil || w.Check() == nil {
		t.Fatalf("drain: %v, check %v", err, w.Check())
	}
	awaitBeacon(lifecycle.Draining)
	if err := w.Undrain(ctx); err != nil || w.Check() != nil {
		t.Fatalf("undrain: %v, check %v", err, w.Check())
	}
	awaitBeacon(lifecycle.Ready)
	if err := w.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	awaitBeacon(lifecycle.Stopped)
	if err := w.Stop(ctx); err != nil {
		t.Fatalf("second stop: %v", err)
	}
	if err := w.Start(ctx); !errors.Is(err, lifecycle.ErrTransition) {
		t.Fatalf("start after stop: %v", err)
	}
}

func TestUnreadyWhileNATSIsAway(t *testing.T) {
	cluster := natstest.Cluster(t, 1)
	node := lifecycle.NewNode(lifecycle.Worldrouter, "")
	w, err := worldrouter.New(worldrouter.Config{}, node, natsconn.Config{URL: cluster.URL()}, telemetry.Noop(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := w.Start(ctx); err != nil {
		t.Fatal(err)
	}
	cluster.Stop(0)
	natstest.Eventually(t, 10*time.Second, "unready", func() bool { return errors.Is(w.Check(), natsconn.ErrNotConnected) })
	cluster.Restart(0)
	natstest.Eventually(t, 10*time.Second, "ready again", func() bool { return w.Check() == nil })
	if err := w.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}
