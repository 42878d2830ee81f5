package client_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/gateway/client"
	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/gateway/internal/transport"
	"github.com/switchyard-io/switchyard/shared/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

// gateway is the least that a client can talk to: real sockets, scripted answers.
type gateway struct {
	*transport.Listener
	t      testing.TB
	frames chan frame.Frame     // what clients sent and the script did not answer
	conns  chan *transport.Conn // in the order of their coming
	causes chan transport.Cause
	refuse *fault.Error
}

func startGateway(t testing.TB) *gateway {
	t.Helper()
	g := &gateway{
		t: t, frames: make(chan frame.Frame, 1024),
		conns: make(chan *transport.Conn, 16384), causes: make(chan transport.Cause, 16384),
	}
	l, err := transport.New(transport.Config{Listen: "127.0.0.1:0", TCPListen: "127.0.0.1:0", CloseTimeout: time.Second}, transport.Hooks{
		Open:   func(c *transport.Conn) transport.Events { g.conns <- c; return g },
		Refuse: func(netip.Addr) *fault.Error { return g.refuse },
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	g.Listener = l
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = l.Stop(ctx)
	})
	return g
}

func (g *gateway) Active(*transport.Conn) {}

func (g *gateway) Closed(_ *transport.Conn, cause transport.Cause) { g.causes <- cause }

func (g *gateway) Message(c *transport.Conn, msg []byte) {
	f, err := c.Codec().Decode(msg)
	if err != nil {
		g.t.Errorf("the client sent %q: %v", msg, err)
		return
	}
	answer := frame.Frame{Kind: frame.KindResponse, Route: f.Route, ID: f.ID, Seq: f.Seq}
	switch {
	case f.Route == frame.RouteAuthenticate && bytes.Contains(f.Payload, []byte(`"bad"`)):
		_ = c.Send(c.Codec().AppendError(nil, f, fault.ErrUnauthenticated.After(time.Second)))
		return
	case f.Route == frame.RouteAuthenticate:
		id := `"account_id":"7","user_id":"8","region_id":"1","realm_id":"2"`
		if c.Codec() == frame.ELR2 {
			id = `"account_id":7,"user_id":8,"region_id":1,"realm_id":2`
		}
		answer.Payload = fmt.Appendf(nil, `{"session_id":"s","identity":{%s,"generation":3},"reconnect":{"ticket":"r","expires_in_seconds":9},`+
			`"heartbeat_interval_ms":20,"idle_timeout_ms":60,"gateway_id":"g","resumed":false,"replayed":0,"later":1}`, id)
	case f.Route == 200: // an echo
		answer.Payload, answer.Base64 = slices.Clone(f.Payload), f.Base64
	default:
		f.Payload = slices.Clone(f.Payload)
		g.frames <- f
		return
	}
	_ = c.Send(c.Codec().Append(nil, answer))
}

func (g *gateway) wantFrame(t testing.TB, kind frame.Kind, route uint32) frame.Frame {
	t.Helper()
	for {
		select {
		case f := <-g.frames:
			if f.Kind == kind && f.Route == route {
				return f
			}
		case <-time.After(patience):
			t.Fatalf("no %s on route %d came", kind, route)
		}
	}
}

// forms are the ways to connect.
var forms = map[string]func(g *gateway) (string, client.Options){
	"json": func(g *gateway) (string, client.Options) {
		return "ws://" + g.Addr().String() + "/v1/connect", client.Options{}
	},
	"elr2": func(g *gateway) (string, client.Options) {
		return "ws://" + g.Addr().String() + "/elura/game", client.Options{Subprotocol: client.ELR2}
	},
	"tcp": func(g *gateway) (string, client.Options) { return "tcp://" + g.TCPAddr().String(), client.Options{} },
}

func eachForm(t *testing.T, test func(t *testing.T, g *gateway, form string, url string, o client.Options)) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			g := startGateway(t)
			url, o := form(g)
			test(t, g, name, url, o)
		})
	}
}

func dial(t testing.TB, url string, o client.Options) *client.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.Dial(ctx, url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func want[T any](t testing.TB, from chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatalf("no %s", what)
	}
	return v
}

var long = `"` + strings.Repeat("0123456789", 10_000) + `"`
