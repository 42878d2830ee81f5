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
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard-io/switchyard/gateway"
	"github.com/switchyard-io/switchyard/gateway/client"
	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/telemetry"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

const (
	within = 10 * time.Second
	alice  = identity.UID("eu/main/alice")
)

// site is gateways, and fakes of the services that they need, on one NATS server.
type site struct {
	t         *testing.T
	url       string
	nc        *nats.Conn
	authority *fakeAuthority
	ticketing *fakeTicketing
	events    jetstream.Stream
}

func newSite(t *testing.T) *site {
	t.Helper()
	return newSiteAt(t, natstest.Server(t).URL())
}

func newSiteAt(t *testing.T, url string) *site {
	t.Helper()
	s := &site{t: t, url: url, nc: natstest.Conn(t, url)}
	s.authority, s.ticketing = startAuthority(t, s.nc), startTicketing(t, s.nc)
	js, err := natsconn.JetStream(s.nc)
	if err != nil {
		t.Fatal(err)
	}
	if s.events, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: subject.StreamEvents, Subjects: []string{subject.EventsAll}}); err != nil {
		t.Fatal(err)
	}
	return s
}

// gateway is a gateway that is ready.
func (s *site) gateway(change func(*gateway.Config)) *gateway.Gateway {
	s.t.Helper()
	g := s.start(change)
	natstest.Eventually(s.t, within, "the gateway is ready", func() bool { return g.Check() == nil })
	return g
}

func (s *site) start(change func(*gateway.Config)) *gateway.Gateway {
	s.t.Helper()
	cfg := config()
	if change != nil {
		change(&cfg)
	}
	g, err := gateway.New(cfg, lifecycle.NewNode(lifecycle.Gateway, ""), natsconn.Config{URL: s.url}, telemetry.Noop(), slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			s.t.Error(err)
		}
	})
	if err := g.Start(ctx); err != nil {
		s.t.Fatal(err)
	}
	return g
}

func config() gateway.Config {
	return gateway.Config{
		Listen: "127.0.0.1:0", TCPListen: "127.0.0.1:0", AuthenticationTimeout: 10 * time.Second, HeartbeatInterval: 25 * time.Second,
		IdleTimeout: 75 * time.Second, RequestTimeout: 5 * time.Second, DrainTimeout: time.Second, EvictTimeout: 3 * time.Second,
		TouchInterval: 100 * time.Millisecond, MaxMessageBytes: 1 << 20, SendQueueBytes: 1 << 20, MaxInFlight: 64,
		MaxViolations: 10, RequestRate: 200, RequestBurst: 400, MaxSessions: 1000, MaxActivations: 64,
	}
}

// device is a client with what it has received.
type device struct {
	*client.Client
	session *client.Session

	mu       sync.Mutex
	pushes   []string
	controls []client.Control
	ended    error
}

func (s *site) dial(url string, o client.Options) *device {
	s.t.Helper()
	d := &device{}
	o.OnPush = func(_ *client.Client, p client.Push) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.pushes = append(d.pushes, fmt.Sprintf("%d:%s", p.Seq, p.Payload))
	}
	o.OnControl = func(_ *client.Client, c client.Control) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.controls = append(d.controls, c)
	}
	o.OnClose = func(_ *client.Client, err error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.ended = err
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var err error
	if d.Client, err = client.Dial(ctx, url, o); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		d.Abort()
		natstest.Eventually(s.t, within, "the client has ended", func() bool { return d.end() != nil })
	})
	return d
}

func (d *device) end() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ended
}

func (d *device) received() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.pushes, " ")
}

// login connects and authenticates a device of a user.
func (s *site) login(g *gateway.Gateway, user, id string) (*device, error) {
	s.t.Helper()
	d := s.dial(g.URL()+gateway.ConnectPath, client.Options{})
	return d, d.login(s.ticketing.login(user, "room-*"), id)
}

func (d *device) login(ticket, id string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	d.session, err = d.Authenticate(ctx, client.Login{Ticket: ticket, Device: &client.Device{ID: id}})
	return err
}

func (s *site) mustLogin(g *gateway.Gateway, user, id string) *device {
	s.t.Helper()
	d, err := s.login(g, user, id)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// push delivers to one route, as a leader does, and returns its result.
func (s *site) push(r *wirepb.Route, text string) wirepb.Delivery {
	s.t.Helper()
	batch := &wirepb.OwnerPush{GatewayId: r.GatewayId, BootId: r.BootId, Items: []*wirepb.OwnerPushItem{{
		Item: 1, Push: &wirepb.Push{Route: 100, Payload: []byte(`"` + text + `"`)},
		To: []*wirepb.Address{{Uid: r.Uid, SessionId: r.SessionId, OwnerSeq: r.OwnerSeq}},
	}}}
	data, err := batch.MarshalVT()
	if err != nil {
		s.t.Fatal(err)
	}
	m, err := s.nc.Request(subject.Owner(r.GatewayId, r.BootId, subject.OwnerPush), data, within)
	if err != nil {
		s.t.Fatal(err)
	}
	var out wirepb.OwnerPushReply
	if err := out.UnmarshalVT(m.Data); err != nil || len(out.Results) != 1 {
		s.t.Fatalf("%v %v", &out, err)
	}
	return out.Results[0].Delivery
}

func closedWith(d *device) fault.CloseCode {
	var e *client.CloseError
	if errors.As(d.end(), &e) {
		return e.Code
	}
	return 0
}

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
		natstest.Eventually(t, within, "the event is stored", func() bool {
			m, err := s.events.GetMsg(t.Context(), uint64(i+1))
			if err != nil {
				return false
			}
			var e api.SessionEvent
			if err := json.Unmarshal(m.Data, &e); err != nil || m.Subject != subject.Event(api.KindSession, what, "eu", "main") ||
				e.UID != alice || e.SessionID.String() != d.session.SessionID || e.N != uint64(i+1) || e.GatewayID != g.Node().ID || e.Code != 0 {
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
