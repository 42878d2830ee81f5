package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/gateway/client"
	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/gateway/internal/transport"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
)

func TestLoginAndRequests(t *testing.T) {
	eachForm(t, func(t *testing.T, g *gateway, form, url string, o client.Options) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		c := dial(t, url, o)
		var refusal *fault.Error
		if _, err := c.Authenticate(ctx, client.Login{Ticket: "bad"}); !errors.As(err, &refusal) ||
			!errors.Is(err, fault.ErrUnauthenticated) || refusal.RetryAfter != time.Second {
			t.Fatalf("got %v", err)
		}
		s, err := c.Authenticate(ctx, client.Login{Ticket: "good", Device: &client.Device{ID: "d"}})
		if err != nil {
			t.Fatal(err)
		}
		who := identity.Identity{AccountID: "7", UserID: "8", RegionID: "1", RealmID: "2", Generation: 3}
		if s.SessionID != "s" || s.Identity != who || s.Reconnect.Ticket != "r" || s.HeartbeatInterval != 20*time.Millisecond {
			t.Fatalf("got %+v", s)
		}
		for _, payload := range []string{`{"a":1}`, long, "", "no JSON"} {
			r, err := c.Request(ctx, 200, []byte(payload))
			if err != nil || string(r.Payload) != payload {
				t.Fatalf("echo of %.20q: %.20q, %v", payload, r.Payload, err)
			}
			if bytes := form == "json" && payload == "no JSON"; r.Base64 != bytes {
				t.Errorf("%.20q: base64 %v", payload, r.Base64)
			}
		}
		// Heartbeats go on by themselves, and the gateway's are answered.
		hb := g.wantFrame(t, frame.KindRequest, frame.RouteHeartbeat)
		if form == "json" != (string(hb.Payload) == `{"last_seq":0}`) {
			t.Errorf("heartbeat %q", hb.Payload)
		}
		g.wantFrame(t, frame.KindRequest, frame.RouteHeartbeat)
		conn := want(t, g.conns, "connection")
		_ = conn.Send(conn.Codec().Append(nil, frame.Frame{Kind: frame.KindRequest, Route: frame.RouteHeartbeat, ID: 77}))
		if f := g.wantFrame(t, frame.KindResponse, frame.RouteHeartbeat); f.ID != 77 || f.Payload != nil {
			t.Errorf("answer %+v", f)
		}
	})
}

func TestPushes(t *testing.T) {
	eachForm(t, func(t *testing.T, g *gateway, form, url string, o client.Options) {
		got := make(chan client.Push, 16)
		o.OnPush = func(_ *client.Client, p client.Push) {
			p.Payload = append([]byte(nil), p.Payload...)
			got <- p
		}
		c := dial(t, url, o)
		conn := want(t, g.conns, "connection")
		for i, payload := range []string{`"one"`, long, `"three"`} {
			p := frame.Prepare(conn.Codec(), 300, []byte(payload), false, i == 2)
			if err := conn.SendPrepared(p, uint32(i+1)); err != nil {
				t.Fatal(err)
			}
			if push := want(t, got, "push"); push.Route != 300 || push.Seq != uint32(i+1) || string(push.Payload) != payload {
				t.Fatalf("got %+v", push)
			}
		}
		if form != "json" {
			if err := c.Ack(1); !errors.Is(err, client.ErrNoAck) {
				t.Errorf("ack: %v", err)
			}
			return
		}
		if f := g.wantFrame(t, frame.KindRequest, frame.RouteAcknowledge); string(f.Payload) != `{"seqs":[3]}` {
			t.Errorf("acknowledged %s", f.Payload)
		}
		if c.LastSeq() != 3 {
			t.Errorf("last seq %d", c.LastSeq())
		}
		if err := c.Ack(1, 2); err != nil {
			t.Fatal(err)
		}
		if f := g.wantFrame(t, frame.KindRequest, frame.RouteAcknowledge); string(f.Payload) != `{"seqs":[1,2]}` {
			t.Errorf("acknowledged %s", f.Payload)
		}
	})
}

func TestControlAndClose(t *testing.T) {
	eachForm(t, func(t *testing.T, g *gateway, form, url string, o client.Options) {
		control := make(chan client.Control, 1)
		ended := make(chan error, 4)
		waiting := make(chan error, 4)
		o.OnControl = func(_ *client.Client, c client.Control) { control <- c }
		o.OnClose = func(_ *client.Client, err error) { ended <- err }
		c := dial(t, url, o)
		conn := want(t, g.conns, "connection")
		if err := c.Go(201, nil, func(_ client.Reply, err error) { waiting <- err }); err != nil {
			t.Fatal(err)
		}
		g.wantFrame(t, frame.KindRequest, 201)
		payload := []byte(`{"action":"duplicate_login","reason":"elsewhere","reconnect":false}`)
		if form != "json" {
			payload = []byte("\x08\x03\x12\x09elsewhere\x18\x01")
		}
		last := conn.Codec().Append(nil, frame.Frame{Kind: frame.KindPush, Route: frame.RouteControl, Payload: payload})
		conn.Close(fault.CloseReplaced, last)
		if got := want(t, control, "control push"); got.Action != "duplicate_login" || got.Reason != "elsewhere" {
			t.Errorf("got %+v", got)
		}
		err := want(t, ended, "OnClose")
		var closed *client.CloseError
		if form != "tcp" && (!errors.As(err, &closed) || closed.Code != fault.CloseReplaced || closed.Reason != "replaced by another session") {
			t.Errorf("ended with %v", err)
		}
		if e := want(t, waiting, "end of the request"); e == nil || e.Error() != err.Error() {
			t.Errorf("the request ended with %v", e)
		}
		if err := c.Go(201, nil, nil); err == nil {
			t.Error("a request after the end")
		}
		if len(ended) != 0 {
			t.Error("OnClose twice")
		}
	})
}

func TestCloseByTheClient(t *testing.T) {
	eachForm(t, func(t *testing.T, g *gateway, form, url string, o client.Options) {
		ended := make(chan error, 4)
		o.OnClose = func(_ *client.Client, err error) { ended <- err }
		c := dial(t, url, o)
		_ = c.Close()
		_ = c.Close()
		if err := want(t, ended, "OnClose"); !errors.Is(err, client.ErrClosed) {
			t.Errorf("ended with %v", err)
		}
		cause := want(t, g.causes, "end at the gateway")
		if cause.Origin != transport.OriginPeer || form != "tcp" && cause.PeerCode != 1000 {
			t.Errorf("cause %+v", cause)
		}
	})
}

func TestAbort(t *testing.T) {
	g := startGateway(t)
	c := dial(t, "ws://"+g.Addr().String()+"/v1/connect", client.Options{})
	c.Abort()
	if cause := want(t, g.causes, "end at the gateway"); cause.Origin != transport.OriginBroken {
		t.Errorf("cause %+v", cause)
	}
}

func TestRefusedUpgrade(t *testing.T) {
	g := startGateway(t)
	g.refuse = fault.ErrBanned
	_, err := client.Dial(context.Background(), "ws://"+g.Addr().String()+"/v1/connect", client.Options{})
	if !errors.Is(err, fault.ErrBanned) {
		t.Errorf("got %v", err)
	}
	g.refuse = nil
	_, err = client.Dial(context.Background(), "ws://"+g.Addr().String()+"/v1/connect", client.Options{Origin: "https://evil.example"})
	if !errors.Is(err, fault.ErrForbidden) {
		t.Errorf("got %v", err)
	}
	for _, url := range []string{"http://x/", "ws://127.0.0.1:1/", "tcp://127.0.0.1:1"} {
		if _, err := client.Dial(context.Background(), url, client.Options{}); err == nil {
			t.Errorf("%s: connected", url)
		}
	}
}

func TestRequestIsBoundedByItsContext(t *testing.T) {
	g := startGateway(t)
	c := dial(t, "ws://"+g.Addr().String()+"/v1/connect", client.Options{LocalAddr: net.IPv4(127, 0, 0, 1)})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Request(ctx, 201, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// BenchmarkClients dials many clients in one process, as a load generator does, and then sends
// each one push.
func BenchmarkClients(b *testing.B) {
	const n = 5000
	for range b.N {
		g := startGateway(b)
		var got atomic.Int64
		o := client.Options{LocalAddr: net.IPv4(127, 0, 0, 1), OnPush: func(*client.Client, client.Push) { got.Add(1) }}
		for range n {
			dial(b, "ws://"+g.Addr().String()+"/v1/connect", o)
		}
		p := frame.Prepare(frame.JSON, 200, []byte(`"`+strings.Repeat("x", 250)+`"`), false, false)
		for range n {
			if err := (<-g.conns).SendPrepared(p, 1); err != nil {
				b.Fatal(err)
			}
		}
		for deadline := time.Now().Add(patience); got.Load() < n; {
			runtime.Gosched()
			if time.Now().After(deadline) {
				b.Fatal(fmt.Sprint(got.Load(), " pushes arrived"))
			}
		}
		b.ReportMetric(n/b.Elapsed().Seconds(), "clients/s")
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc+m.StackInuse)/n, "heap+stack-B/pair") // client and connection
	}
}
