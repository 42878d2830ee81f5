package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/gateway"
	"github.com/switchyard-io/switchyard/gateway/client"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/natstest"
)

func TestDrain(t *testing.T) {
	s := newSite(t)
	g := s.gateway(nil)
	var devices []*device
	for i := range 10 {
		devices = append(devices, s.mustLogin(g, fmt.Sprintf("u%d", i), ""))
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	start := time.Now()
	if err := g.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if spent := time.Since(start); spent < 400*time.Millisecond { // half of DrainTimeout, but for the last close
		t.Errorf("closes were not spread: %s", spent)
	}
	s.authority.mu.Lock()
	left := len(s.authority.routes)
	s.authority.mu.Unlock()
	if left != 0 || g.Check() == nil || g.State() != lifecycle.Draining {
		t.Errorf("%d routes left, check %v, %s", left, g.Check(), g.State())
	}
	for _, d := range devices {
		natstest.Eventually(t, within, "the close arrives", func() bool { return closedWith(d) == fault.CloseDraining })
		if len(d.controls) != 1 || d.controls[0].Action != "server_draining" || !d.controls[0].Reconnect {
			t.Errorf("told %+v", d.controls)
		}
	}
	if _, err := client.Dial(ctx, g.URL()+gateway.ConnectPath, client.Options{}); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("connect while draining: %v", err)
	}
	if err := g.Undrain(ctx); err != nil || g.Check() != nil {
		t.Errorf("undrain: %v, check %v", err, g.Check())
	}
	s.mustLogin(g, "alice", "")
}

func TestADrainThatIsTakenBack(t *testing.T) {
	s := newSite(t)
	g := s.gateway(func(c *gateway.Config) { c.DrainTimeout = time.Hour })
	s.mustLogin(g, "alice", "")
	s.mustLogin(g, "bob", "")
	ctx, cancel := context.WithCancel(t.Context())
	drained := make(chan error, 1)
	go func() { drained <- g.Drain(ctx) }()
	natstest.Eventually(t, within, "draining", func() bool { return g.State() == lifecycle.Draining })
	cancel()
	if err := <-drained; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := g.Undrain(t.Context()); err != nil || g.Check() != nil {
		t.Fatalf("undrain: %v, check %v", err, g.Check())
	}
	// The first is closed at once, the other would have been half an hour later.
	natstest.Eventually(t, within, "one session is left", func() bool {
		return len(s.authority.online(alice))+len(s.authority.online("eu/main/bob")) == 1
	})
}
