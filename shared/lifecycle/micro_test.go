package lifecycle_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/natstest"
)

func microOn(t *testing.T, nc *nats.Conn) *lifecycle.MicroService {
	t.Helper()
	m, err := lifecycle.Micro(nc, lifecycle.NewNode(lifecycle.Authority, "a-1"), "test")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMicroIsVisible(t *testing.T) {
	server := natstest.Server(t)
	nc, asker := natstest.Conn(t, server.URL()), natstest.Conn(t, server.URL())
	m := microOn(t, nc)
	if err := m.AddEndpoint("push", micro.HandlerFunc(func(r micro.Request) { _ = r.Respond(r.Data()) }), micro.WithEndpointSubject("test.push")); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	reply, err := asker.Request("$SRV.INFO.authority", nil, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var info micro.Info
	if err := json.Unmarshal(reply.Data, &info); err != nil {
		t.Fatal(err)
	}
	if info.Metadata["node"] != "a-1" || info.Version != lifecycle.Version || len(info.Endpoints) != 1 || info.Endpoints[0].QueueGroup != "authority" {
		t.Fatalf("info: %+v", info)
	}
	if err := m.Stop(); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(m.Check(), lifecycle.ErrMicroStopped) {
		t.Fatalf("after stop: %v", m.Check())
	}
}

// The connection's own handlers stay in force below the micro service, and an asynchronous error
// of one of its subscriptions does not stop it.
func TestMicroOutlivesAsyncErrors(t *testing.T) {
	server := natstest.Server(t)
	asker := natstest.Conn(t, server.URL())
	seen := make(chan error, 16)
	nc, err := nats.Connect(server.URL(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		select {
		case seen <- err:
		default:
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	m := microOn(t, nc)
	release := make(chan struct{})
	if err := m.AddEndpoint("slow", micro.HandlerFunc(func(r micro.Request) { <-release; _ = r.Respond(nil) }),
		micro.WithEndpointSubject("test.slow"), micro.WithEndpointPendingLimits(1, 1024)); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := asker.PublishRequest("test.slow", asker.NewRespInbox(), nil); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-seen:
		if !errors.Is(err, nats.ErrSlowConsumer) {
			t.Fatalf("handler got %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the connection's own error handler was not called")
	}
	close(release)
	if err := m.Check(); err != nil {
		t.Fatalf("stopped by an asynchronous error: %v", err)
	}
	natstest.Eventually(t, 10*time.Second, "the endpoint answers again", func() bool {
		_, err := asker.Request("test.slow", nil, time.Second)
		return err == nil
	})
}

func TestMicroTurnsRedWithItsConnection(t *testing.T) {
	server := natstest.Server(t)
	nc := natstest.Conn(t, server.URL())
	m := microOn(t, nc)
	nc.SetClosedHandler(func(*nats.Conn) {}) // replaces micro's own
	nc.Close()
	natstest.Eventually(t, 5*time.Second, "red", func() bool { return m.Check() != nil })
	_ = m.Stop()
}

func TestMicroStopsWhileNATSIsAway(t *testing.T) {
	cluster := natstest.Cluster(t, 1)
	nc := natstest.Conn(t, cluster.URL())
	m := microOn(t, nc)
	cluster.Stop(0)
	natstest.Eventually(t, 10*time.Second, "connection lost", func() bool { return !nc.IsConnected() })
	if err := m.Stop(); err != nil {
		t.Fatal(err)
	}
}
