package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/switchyard-io/switchyard/gateway"
	"github.com/switchyard-io/switchyard/gateway/client"
	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/telemetry"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

func TestTwoGateways(t *testing.T) {
	s := newSite(t)
	g1, g2 := s.gateway(nil), s.gateway(nil)
	phone, pad := s.mustLogin(g1, "alice", "phone"), s.mustLogin(g2, "alice", "pad")
	if phone.session.GatewayID != g1.Node().ID || phone.session.Identity.UserID != "alice" || phone.session.Reconnect.Ticket == "" {
		t.Fatalf("%+v", phone.session)
	}
	routes := s.authority.online(alice)
	if len(routes) != 2 {
		t.Fatalf("%d routes", len(routes))
	}
	for i := range 3 {
		for _, r := range routes {
			if got := s.push(r, fmt.Sprint(i)); got != wirepb.Delivery_DELIVERY_QUEUED {
				t.Fatalf("push: %v", got)
			}
		}
	}
	for _, d := range []*device{phone, pad} {
		natstest.Eventually(t, within, "all pushes arrive", func() bool { return d.received() == `1:"0" 2:"1" 3:"2"` })
	}
	// Activity is told, and moves the sequence on; both of the route's sequences are exact.
	if err := phone.Heartbeat(); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, within, "a touch", func() bool {
		for _, r := range s.authority.online(alice) {
			if r.GatewayId == g1.Node().ID && r.OwnerSeq > 1 {
				return s.push(r, "new") == wirepb.Delivery_DELIVERY_QUEUED
			}
		}
		return false
	})
	_ = pad.Close()
	natstest.Eventually(t, within, "the route of a closed session goes", func() bool { return len(s.authority.online(alice)) == 1 })
}

func TestRawTCPAndRenew(t *testing.T) {
	s := newSite(t)
	g := s.gateway(nil)
	d := s.dial("tcp://"+g.TCPAddr(), client.Options{})
	if err := d.login(s.ticketing.login("alice"), ""); !errors.Is(err, fault.ErrInvalidRequest) { // no numbers
		t.Fatal(err)
	}
	w := s.mustLogin(g, "alice", "")
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	fresh, err := w.Renew(ctx, w.session.Reconnect.Ticket)
	if err != nil || fresh.Ticket == "" || fresh.Ticket == w.session.Reconnect.Ticket {
		t.Fatalf("%+v %v", fresh, err)
	}
	if _, err := w.Renew(ctx, w.session.Reconnect.Ticket); !errors.Is(err, fault.ErrUnauthenticated) {
		t.Fatalf("renewed twice: %v", err)
	}
}

func TestI1_TheOldSessionIsClosedBeforeTheAnswer(t *testing.T) {
	s := newSite(t)
	g1, g2 := s.gateway(nil), s.gateway(nil)
	before := s.mustLogin(g1, "alice", "phone")
	old := s.authority.online(alice)[0]
	s.mustLogin(g2, "alice", "phone")
	// The answer is here: the old session can receive nothing any more.
	if got := s.push(old, "late"); got != wirepb.Delivery_DELIVERY_STALE {
		t.Fatalf("push to the old session: %v", got)
	}
	natstest.Eventually(t, within, "the old session ends", func() bool { return closedWith(before) == fault.CloseReplaced })
	before.mu.Lock()
	defer before.mu.Unlock()
	if len(before.controls) != 1 || before.controls[0].Action != "duplicate_login" || before.controls[0].Reconnect {
		t.Fatalf("told %+v", before.controls)
	}
}

func TestI5_AUsedTicketAuthenticatesNobodyAndKicksNobody(t *testing.T) {
	s := newSite(t)
	g1, g2 := s.gateway(nil), s.gateway(nil)
	token := s.ticketing.login("alice")
	first := s.dial(g1.URL()+gateway.ConnectPath, client.Options{})
	if err := first.login(token, "phone"); err != nil {
		t.Fatal(err)
	}
	for _, g := range []*gateway.Gateway{g1, g2} {
		again := s.dial(g.URL()+gateway.ConnectPath, client.Options{})
		if err := again.login(token, "phone"); !errors.Is(err, fault.ErrUnauthenticated) {
			t.Fatal(err)
		}
	}
	routes := s.authority.online(alice)
	if len(routes) != 1 || s.push(routes[0], "still here") != wirepb.Delivery_DELIVERY_QUEUED {
		t.Fatalf("routes %v", routes)
	}
	natstest.Eventually(t, within, "the push arrives", func() bool { return first.received() == `1:"still here"` })
}

func TestI7_ANewTermIsToldOfEverySession(t *testing.T) {
	s := newSite(t)
	g := s.gateway(nil)
	for i := range 20 {
		s.mustLogin(g, fmt.Sprintf("u%d", i), "")
	}
	s.authority.newTerm()
	natstest.Eventually(t, within, "the new term has all of it", func() bool {
		s.authority.mu.Lock()
		defer s.authority.mu.Unlock()
		return len(s.authority.routes) == 20 && len(s.authority.complete) == 256
	})
}

func TestATermThatEndsDuringALogin(t *testing.T) {
	s := newSite(t)
	g := s.gateway(nil)
	hold := make(chan struct{})
	s.authority.mu.Lock()
	s.authority.hold = hold
	s.authority.mu.Unlock()
	done := make(chan error, 1)
	d := s.dial(g.URL()+gateway.ConnectPath, client.Options{})
	go func() { done <- d.login(s.ticketing.login("alice"), "phone") }()
	natstest.Eventually(t, within, "a candidate", func() bool {
		s.authority.mu.Lock()
		defer s.authority.mu.Unlock()
		return len(s.authority.candidates) == 1
	})
	s.authority.newTerm() // the candidate is lost
	s.authority.mu.Lock()
	s.authority.hold = nil
	s.authority.mu.Unlock()
	close(hold)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if routes := s.authority.online(alice); len(routes) != 1 {
		t.Fatalf("%d routes", len(routes))
	}
}

func TestWithoutTicketing(t *testing.T) {
	s := newSite(t)
	s.ticketing.stop()
	g := s.start(nil)
	d := s.dial(g.URL()+gateway.ConnectPath, client.Options{})
	// No key can be checked: the gateway says so, and not that the ticket is bad.
	if err := d.login(s.ticketing.login("alice"), ""); !errors.Is(err, fault.ErrUnavailable) {
		t.Fatal(err)
	}
	if g.Check() == nil {
		t.Fatal("ready without keys")
	}
}

func TestSessionEvents(t *testing.T) {
	s := newSite(t)
	g := s.gateway(nil)
	d := s.mustLogin(g, "alice", "")
	_ = d.Close()
	for i, what := range []string{api.WhatAuthenticated, api.WhatClosed} {
		code, reason := fault.CloseCode(0), ""
		if what == api.WhatClosed {
			code, reason = 1000, "client closed"
		}
		natstest.Eventually(t, within, "the event is stored", func() bool {
			m, err := s.events.GetMsg(t.Context(), uint64(i+1))
			if err != nil {
				return false
			}
			var e api.SessionEvent
			if err := json.Unmarshal(m.Data, &e); err != nil || m.Subject != subject.Event(api.KindSession, what, "eu", "main") ||
				e.UID != alice || e.SessionID.String() != d.session.SessionID || e.N != uint64(i+1) || e.GatewayID != g.Node().ID || e.Code != code || e.Reason != reason {
				t.Fatalf("%s %s %v", m.Subject, m.Data, err)
			}
			return true
		})
	}
}

func TestPagesAndMicro(t *testing.T) {
	s := newSite(t)
	g := s.gateway(nil)
	get := func() (int, string) {
		res, err := http.Get(strings.Replace(g.URL(), "ws://", "http://", 1) + "/")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	if code, body := get(); code != http.StatusNotFound || !strings.Contains(body, `"NOT_FOUND"`) {
		t.Errorf("%d %s", code, body)
	}
	g.SetPages(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "demo") }))
	if code, body := get(); code != http.StatusOK || body != "demo" {
		t.Errorf("%d %s", code, body)
	}
	http.DefaultClient.CloseIdleConnections()
	m, err := s.nc.Request("$SRV.PING.gateway", nil, within)
	if err != nil {
		t.Fatal(err)
	}
	var pong struct {
		Name     string
		Metadata map[string]string
	}
	if err := json.Unmarshal(m.Data, &pong); err != nil || pong.Name != "gateway" || pong.Metadata["node"] != g.Node().ID {
		t.Errorf("%s %v", m.Data, err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, change := range map[string]func(*gateway.Config){
		"listen":    func(c *gateway.Config) { c.Listen = "nowhere" },
		"tcp":       func(c *gateway.Config) { c.TCPListen = "nowhere" },
		"timeout":   func(c *gateway.Config) { c.RequestTimeout = 0 },
		"heartbeat": func(c *gateway.Config) { c.HeartbeatInterval = c.IdleTimeout },
		"rate":      func(c *gateway.Config) { c.RequestRate = 0 },
		"bound":     func(c *gateway.Config) { c.MaxSessions = 0 },
		"per ip":    func(c *gateway.Config) { c.MaxConnectionsPerIP = -1 },
		"replicas":  func(c *gateway.Config) { c.Replicas = 9 },
	} {
		cfg := config()
		change(&cfg)
		_, err := gateway.New(cfg, lifecycle.NewNode(lifecycle.Gateway, ""), natsconn.Config{URL: "nats://127.0.0.1:1"}, telemetry.Noop(), slog.New(slog.DiscardHandler))
		if !errors.Is(err, gateway.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
