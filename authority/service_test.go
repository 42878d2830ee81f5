package authority_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/switchyard-io/switchyard/authority"
	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/leadership"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/telemetry"
)

// plainServer is a NATS server that maps no subjects.
func plainServer(t *testing.T) string {
	t.Helper()
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(patience) {
		t.Fatal("the server is not ready")
	}
	return srv.ClientURL()
}

// TestUnmappedServer: where the server maps no per-user subjects, every node hears them, and only
// the leader answers, once and in order.
func TestUnmappedServer(t *testing.T) {
	url := plainServer(t)
	s := &site{t: t, url: url, nc: natstest.Conn(t, url)}
	a1, _ := s.start("a1", nil)
	a2, _ := s.start("a2", nil)
	s.await(a1)
	s.await(a2)
	g := s.owner("g1")
	users := crowd(10, g) // some led by each
	for _, u := range users {
		if p := ask[api.UserPresence](s, s.userSubject(u, subject.UserPresence), ""); p.Status != api.Online || p.UID != u {
			t.Fatalf("%+v", p)
		}
	}
	inbox := s.nc.NewInbox()
	sub, err := s.nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range users {
		if err := s.nc.PublishRequest(s.userSubject(u, subject.UserPush), inbox, []byte(`{"route":100,"payload":1}`)); err != nil {
			t.Fatal(err)
		}
	}
	for range users {
		m, err := sub.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		var r api.PushReply
		if err := json.Unmarshal(m.Data, &r); err != nil || r.Delivered != 1 {
			t.Fatalf("%s %v", m.Data, err)
		}
	}
	if m, err := sub.NextMsg(200 * time.Millisecond); !errors.Is(err, nats.ErrTimeout) {
		t.Fatalf("one answer too many: %s", m.Data)
	}
}

// TestMicro: the node is a micro service with all its endpoints.
func TestMicro(t *testing.T) {
	s := ready(t)
	m, err := s.nc.Request("$SRV.INFO.authority", nil, patience)
	if err != nil {
		t.Fatal(err)
	}
	var info micro.Info
	if err := json.Unmarshal(m.Data, &info); err != nil {
		t.Fatal(err)
	}
	var subjects []string
	for _, e := range info.Endpoints {
		subjects = append(subjects, e.Subject)
		if want := !slices.Contains([]string{subject.UserAll(subject.UserPush), subject.UserAll(subject.UserPresence)}, e.Subject); (e.QueueGroup == subject.QueueAuthority) != want {
			t.Errorf("%s is in queue group %q", e.Subject, e.QueueGroup)
		}
	}
	for _, want := range []string{subject.Push, subject.Presence, subject.Kick, subject.GroupJoin, subject.GroupLeave, subject.Slots, subject.Nodes} {
		if !slices.Contains(subjects, want) {
			t.Errorf("%s is no endpoint", want)
		}
	}
	if info.Metadata["node"] != "a1" {
		t.Errorf("%v", info.Metadata)
	}
}

// TestFireAndForget: requests without a reply subject are served.
func TestFireAndForget(t *testing.T) {
	s := ready(t)
	g := s.owner("g1")
	c := g.login(alice, "phone")
	for _, subj := range []string{subject.Push, s.userSubject(alice, subject.UserPush)} {
		body := `{"users":["eu/main/alice"],"route":100,"payload":1}`
		if subj != subject.Push {
			body = `{"route":100,"payload":1}`
		}
		if err := s.nc.Publish(subj, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	wantPushes(t, g, c, "1", "1")
}

func TestLifecycle(t *testing.T) {
	s := ready(t)
	node := lifecycle.NewNode(lifecycle.Authority, "b1")
	build := func(cfg authority.Config) (*authority.Authority, error) {
		return authority.New(cfg, node, natsconn.Config{URL: s.url}, telemetry.Noop(), slog.New(slog.DiscardHandler))
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a, err := build(config(t, func(c *authority.Config) { c.LogicalSlots = 16 }))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(ctx); !errors.Is(err, leadership.ErrLayout) {
		t.Fatalf("another layout: %v", err)
	}
	if err := a.Stop(ctx); err != nil { // after a failed start
		t.Fatal(err)
	}
	if a, err = build(config(t, nil)); err != nil {
		t.Fatal(err)
	}
	if a.Check() == nil || a.Node() != node {
		t.Fatal("ready before it started")
	}
	if err := a.Stop(ctx); err != nil { // never started
		t.Fatal(err)
	}
	if err := a.Start(ctx); err == nil {
		t.Fatal("started after it had stopped")
	}
}

// TestStopIsBounded: requests that still wait for clients do not keep a node from stopping, and are
// answered.
func TestStopIsBounded(t *testing.T) {
	s := newSite(t)
	a, _ := s.start("a1", nil)
	s.await(a)
	g := s.owner("g1")
	g.login(alice, "phone")
	g.setSilent(true)
	inbox := s.nc.NewInbox()
	sub, err := s.nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	const body = `"route":100,"payload":1,"ack":true,"ack_timeout_ms":60000}`
	for subj, b := range map[string]string{subject.Push: `{"users":["eu/main/alice"],` + body, s.userSubject(alice, subject.UserPush): `{` + body} {
		if err := s.nc.PublishRequest(subj, inbox, []byte(b)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, patience, "both pushes wait", func() bool { return g.unanswered() == 2 })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := a.Stop(ctx); err != nil || ctx.Err() != nil {
		t.Fatal(err, ctx.Err())
	}
	for range 2 {
		m, err := sub.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		var r api.PushReply
		if err := json.Unmarshal(m.Data, &r); err != nil || len(r.Errors) != 1 || r.Errors[0].UID != alice {
			t.Fatalf("%s %v", m.Data, err)
		}
	}
}

func TestConfig(t *testing.T) {
	if err := config(t, nil).Validate(); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*authority.Config){
		"logical slots": func(c *authority.Config) { c.LogicalSlots = 257 },
		"replicas":      func(c *authority.Config) { c.Replicas = -1 },
		"routes":        func(c *authority.Config) { c.MaxRoutes = 0 },
		"lease":         func(c *authority.Config) { c.Lease = time.Second },
		"wait":          func(c *authority.Config) { c.LeaderWait = 0 },
		"events":        func(c *authority.Config) { c.EventsMaxAge = time.Second },
	} {
		if err := config(t, edit).Validate(); !errors.Is(err, authority.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestI12_QueueFull: more requests at a time than allowed are refused at once, as retryable.
func TestI12_QueueFull(t *testing.T) {
	const most, asked = 8, 20
	s := newSite(t)
	a, _ := s.start("a1", func(c *authority.Config) { c.MaxRequests = most })
	s.await(a)
	g := s.owner("g1")
	g.login(alice, "phone")
	g.setSilent(true)
	results := make(chan error, asked)
	for range asked {
		go func() {
			_, err := try[api.PushReply](s, subject.Push, push(alice)) // waits for the owner
			results <- err
		}()
	}
	refused := 0
	for range asked {
		switch err := <-results; {
		case errors.Is(err, fault.ErrQueueFull):
			refused++
		case err != nil:
			t.Fatal(err)
		}
	}
	if refused < asked-most || refused == asked {
		t.Fatalf("%d of %d refused", refused, asked)
	}
}
