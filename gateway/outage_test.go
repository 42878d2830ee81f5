package gateway_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/gateway"
	"github.com/switchyard-io/switchyard/gateway/client"
	"github.com/switchyard-io/switchyard/shared/embedded"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

func TestI9_AnOutageOfNATSDropsNobody(t *testing.T) {
	server := func(listen, dir string) *embedded.Server {
		t.Helper()
		s, err := embedded.Start(embedded.Config{Listen: listen, DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	dir := t.TempDir()
	nats := server("127.0.0.1:0", dir)
	t.Cleanup(func() { nats.Shutdown() })
	s := newSiteAt(t, nats.URL())
	g := s.gateway(func(c *gateway.Config) { c.RequestTimeout, c.AuthenticationTimeout = 2*time.Second, time.Minute })
	d := s.mustLogin(g, "alice", "phone")

	nats.Shutdown()
	natstest.Eventually(t, within, "the gateway is not ready", func() bool { return g.Check() != nil })
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if _, err := d.Request(ctx, 2, nil); err != nil { // the socket is served
		t.Fatal(err)
	}
	other := s.dial(g.URL()+gateway.ConnectPath, client.Options{})
	if err := other.login(s.ticketing.login("bob"), "phone"); !errors.Is(err, fault.ErrUnavailable) {
		t.Fatalf("login without NATS: %v", err)
	}

	nats = server(strings.TrimPrefix(s.url, "nats://"), dir)
	natstest.Eventually(t, within, "the gateway is ready again", func() bool { return g.Check() == nil })
	natstest.Eventually(t, within, "a login works again", func() bool {
		return other.session != nil || other.login(s.ticketing.login("bob"), "phone") == nil
	})
	for _, r := range s.authority.online(alice) {
		if got := s.push(r, "back"); got != wirepb.Delivery_DELIVERY_QUEUED {
			t.Fatalf("push: %v", got)
		}
	}
	natstest.Eventually(t, within, "the push arrives", func() bool { return d.received() == `1:"back"` })
}
