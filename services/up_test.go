package services

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/gateway"
	"github.com/switchyard-io/switchyard/gateway/client"
	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/subject"
)

const (
	startLimit = 60 * time.Second
	testToken  = "0123456789abcdef0123456789abcdef"
	alice      = identity.UID("eu/main/alice")
)

// suite is an all-in-one in the test's process.
type suite struct {
	gateways               []string
	ticketing, nats, admin string
	stop                   func() error
}

var readyLine = regexp.MustCompile(`^ready gateways=(\S+) ticketing=(http://\S+) nats=(nats://\S+) admin=(http://\S+) demo=(http://\S+/)$`)

func startSuite(t *testing.T, dir string) *suite {
	t.Helper()
	for k, v := range map[string]string{
		"SWITCHYARD_DATA_DIR": dir, "SWITCHYARD_NATS_LISTEN": "127.0.0.1:0", "SWITCHYARD_ADMIN_TOKEN": testToken,
		"GATEWAY_LISTEN": "127.0.0.1:0", "GATEWAY_ADMIN_LISTEN": "127.0.0.1:0", "TICKETING_LISTEN": "127.0.0.1:0",
		"GATEWAY_ID": "gw", "GATEWAY_DRAIN_TIMEOUT": "1s",
	} {
		t.Setenv(k, v)
	}
	settings, err := FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Up(ctx, settings, in, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})))
		_ = in.CloseWithError(errors.Join(io.EOF, err)) // ends the scanner below
		ended <- err
	}()
	stopped := false
	stop := func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("the suite ended with: %v", err)
		}
	})
	line := make(chan string, 1)
	go func() {
		s := bufio.NewScanner(out)
		s.Scan()
		line <- s.Text()
	}()
	select {
	case l := <-line:
		m := readyLine.FindStringSubmatch(l)
		if m == nil {
			t.Fatalf("ready line %q", l)
		}
		return &suite{gateways: strings.Split(m[1], ","), ticketing: m[2], nats: m[3], admin: m[4], stop: stop}
	case <-time.After(startLimit):
		t.Fatal("not ready in time")
	}
	return nil
}

func call(t *testing.T, nc *nats.Conn, subject string, req, reply any) {
	t.Helper()
	body, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	m, err := nc.Request(subject, body, 10*time.Second)
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	if f := fault.FromMsg(m); f != nil {
		t.Fatalf("%s: %v", subject, f)
	}
	if err := json.Unmarshal(m.Data, reply); err != nil {
		t.Fatal(err)
	}
}

// device is a logged-in client and what it was pushed.
type device struct {
	*client.Client
	session *client.Session
	pushes  chan string
	closed  chan error
}

func login(t *testing.T, url, ticket string, d client.Device) *device {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	dev := &device{pushes: make(chan string, 16), closed: make(chan error, 1)}
	c, err := client.Dial(ctx, url+gateway.ConnectPath, client.Options{
		OnPush:  func(_ *client.Client, p client.Push) { dev.pushes <- string(p.Payload) },
		OnClose: func(_ *client.Client, err error) { dev.closed <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	dev.Client = c
	t.Cleanup(func() { _ = c.Close() }) // it may be closed already
	if dev.session, err = c.Authenticate(ctx, client.Login{Ticket: ticket, Device: &d}); err != nil {
		t.Fatal(err)
	}
	return dev
}

func ticketFor(t *testing.T, nc *nats.Conn, uid identity.UID) string {
	t.Helper()
	region, realm, user := uid.Split()
	var reply api.TicketReply
	call(t, nc, subject.TicketIssue, api.TicketRequest{
		Identity: identity.Identity{AccountID: "acc", UserID: user, RegionID: region, RealmID: realm},
	}, &reply)
	return reply.Ticket
}

func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		t.Fatalf("no %s", what)
		panic("not reached")
	}
}

func status(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // only the status counts
	return resp.StatusCode
}

// TestMainJob: a user with devices on two gateways is found and delivered to, from one NATS call.
func TestMainJob(t *testing.T) {
	s := startSuite(t, t.TempDir())
	nc := natstest.Conn(t, s.nats)
	if code := status(t, s.admin+"/readyz"); code != http.StatusOK {
		t.Fatalf("readyz %d", code)
	}
	if len(s.gateways) != 2 {
		t.Fatalf("gateways %v", s.gateways)
	}
	phone := login(t, s.gateways[0], ticketFor(t, nc, alice), client.Device{ID: "phone", Flag: "app"})
	pc := login(t, s.gateways[1], ticketFor(t, nc, alice), client.Device{ID: "pc", Flag: "pc"})
	if phone.session.GatewayID != "gw-1" || pc.session.GatewayID != "gw-2" {
		t.Fatalf("gateways %s, %s", phone.session.GatewayID, pc.session.GatewayID)
	}

	var pushed api.PushReply
	call(t, nc, subject.Push, api.PushRequest{
		Users:   []identity.UID{alice, "eu/main/bob"},
		Message: api.Message{Route: 100, Payload: json.RawMessage(`{"n":1}`), Ack: true},
	}, &pushed)
	if pushed.Delivered != 2 || pushed.Acked == nil || *pushed.Acked != 2 || len(pushed.Offline) != 1 || len(pushed.Unknown) != 0 {
		t.Fatalf("push %+v", pushed)
	}
	oneUser, _ := subject.User(alice, subject.UserPush)
	call(t, nc, oneUser, api.Message{Route: 100, Payload: json.RawMessage(`{"n":2}`)}, &pushed)
	if pushed.Delivered != 2 {
		t.Fatalf("push on the user's subject %+v", pushed)
	}
	for _, d := range []*device{phone, pc} {
		for _, want := range []string{`{"n":1}`, `{"n":2}`} {
			if got := receive(t, "push", d.pushes); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
	}

	var who api.PresenceReply
	call(t, nc, subject.Presence, api.PresenceRequest{Users: []identity.UID{alice}}, &who)
	if len(who.Users) != 1 || who.Users[0].Status != api.Online || len(who.Users[0].Sessions) != 2 {
		t.Fatalf("presence %+v", who)
	}
	var kicked api.KickReply
	call(t, nc, subject.Kick, api.KickRequest{UID: alice, Reason: "test"}, &kicked)
	if kicked.Kicked != 2 {
		t.Fatalf("kicked %d", kicked.Kicked)
	}
	for _, d := range []*device{phone, pc} {
		var c *client.CloseError
		if err := receive(t, "close", d.closed); !errors.As(err, &c) || c.Code != fault.CloseForcedLogout {
			t.Fatalf("closed with %v", err)
		}
	}
}

// TestI5_UsedTicketSurvivesARestart: the same data folder, another life: keys and used tickets
// are there, and a clean stop is no error.
func TestI5_UsedTicketSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	s := startSuite(t, dir)
	nc := natstest.Conn(t, s.nats)
	used, fresh := ticketFor(t, nc, alice), ticketFor(t, nc, alice)
	first := login(t, s.gateways[0], used, client.Device{ID: "phone"})
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	var c *client.CloseError
	if err := receive(t, "close", first.closed); !errors.As(err, &c) || c.Code != fault.CloseDraining {
		t.Fatalf("closed with %v", err)
	}

	s = startSuite(t, dir)
	again := login(t, s.gateways[1], fresh, client.Device{ID: "phone"})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	second, err := client.Dial(ctx, s.gateways[0]+gateway.ConnectPath, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close() }() // the gateway may have closed it
	if _, err := second.Authenticate(ctx, client.Login{Ticket: used, Device: &client.Device{ID: "phone"}}); !errors.Is(err, fault.ErrUnauthenticated) {
		t.Fatalf("a used ticket after a restart: %v", err)
	}
	if err := again.Heartbeat(); err != nil { // a replay disturbs nobody
		t.Fatal(err)
	}
}

// TestSecondProcessIsRefused: two processes never share a data folder.
func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	startSuite(t, dir)
	settings, err := FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	if err := Up(t.Context(), settings, io.Discard, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrDataDir) {
		t.Fatal(err)
	}
}
