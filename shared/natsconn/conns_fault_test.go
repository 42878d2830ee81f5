package natsconn_test

import (
	"bytes"
	"context"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/embedded"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
)

func TestConfigValidate(t *testing.T) {
	for name, c := range map[string]natsconn.Config{
		"no url":         {URL: " , "},
		"two logins":     {URL: "nats://h", Creds: "a", NKeySeedFile: "b"},
		"cert, no key":   {URL: "nats://h", TLSCert: "a"},
		"key, no cert":   {URL: "nats://h", TLSKey: "a"},
		"seed not there": {URL: "nats://h", NKeySeedFile: "/nonexistent/seed"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := natsconn.Open(ctx, c, "test", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "configuration") {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}

func TestDefaultURL(t *testing.T) {
	field, _ := reflect.TypeFor[natsconn.Config]().FieldByName("URL")
	if got := field.Tag.Get("default"); got != natsconn.DefaultURL {
		t.Errorf("NATS_URL defaults to %s, not to %s", got, natsconn.DefaultURL)
	}
}

func TestOpenNamesTheReason(t *testing.T) {
	s, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", DataDir: t.TempDir(), Token: "secret-token"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	// Whether the time is over before the first try, after it, or after some.
	for _, wait := range []time.Duration{0, 50 * time.Millisecond, 700 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		_, err = natsconn.Open(ctx, natsconn.Config{URL: s.URL()}, "test", slog.New(slog.DiscardHandler))
		cancel()
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), "authorization violation") {
			t.Fatalf("after %s: %v", wait, err)
		}
	}
	c, err := natsconn.Open(t.Context(), natsconn.Config{URL: strings.Replace(s.URL(), "nats://", "nats://secret-token@", 1)}, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// lines is a log that tests can wait on.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) has(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.buf.String(), s)
}

func TestReconnectsForEver(t *testing.T) {
	cluster := natstest.Cluster(t, 1)
	log := &lines{}
	c, err := natsconn.Open(t.Context(), natsconn.Config{URL: cluster.URL()}, "test", slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cluster.Stop(0)
	natstest.Eventually(t, testWait, "both away", func() bool { return !c.Control.IsConnected() && !c.Data.IsConnected() })
	if err := c.Control.Publish("x", nil); err == nil {
		t.Fatal("the control connection buffers")
	}
	if err := c.Data.Publish("x", nil); err != nil {
		t.Fatalf("the data connection does not: %v", err)
	}
	cluster.Restart(0)
	natstest.Eventually(t, testWait, "both back", func() bool { return c.Check() == nil })
	natstest.Eventually(t, testWait, "logged", func() bool { return log.has("nats connection lost") && log.has("nats connection back") })
}

func TestSlowConsumersAreCounted(t *testing.T) {
	server := natstest.Server(t)
	c := natstest.Conns(t, server.URL())
	release := make(chan struct{})
	sub, err := c.Data.Subscribe("flood", func(*nats.Msg) { <-release })
	if err != nil {
		t.Fatal(err)
	}
	defer close(release)
	if err := sub.SetPendingLimits(1, 1024); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := c.Data.Publish("flood", nil); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Eventually(t, testWait, "counted", func() bool { return c.SlowConsumers() > 0 })
}

func TestCloseWhileNATSIsAway(t *testing.T) {
	cluster := natstest.Cluster(t, 1)
	c := natstest.Conns(t, cluster.URL())
	cluster.Stop(0)
	natstest.Eventually(t, testWait, "away", func() bool { return c.Check() != nil })
	start := time.Now()
	c.Close()
	if d := time.Since(start); d > natsconn.DrainTimeout {
		t.Fatalf("took %v", d)
	}
}
