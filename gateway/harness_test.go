package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard-io/switchyard/gateway"
	"github.com/switchyard-io/switchyard/gateway/client"
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
		MessageWindow: 256, MaxAcks: 1024, MaxHeld: 64, MaxGroups: 16, EventsQueue: 1024, MaxNodes: 64,
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
