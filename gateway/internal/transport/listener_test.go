package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/shared/fault"
)

// knock sends an upgrade request and returns status, error code and chosen subprotocol.
func (g *gate) knock(t *testing.T, path string, header map[string]string) (int, fault.Code, string) {
	t.Helper()
	return g.knockBy(t, http.MethodGet, path, header)
}

// knockBy is knock with another method.
func (g *gate) knockBy(t *testing.T, method, path string, header map[string]string) (int, fault.Code, string) {
	t.Helper()
	req, _ := http.NewRequest(method, "http://"+g.Addr().String()+path, nil)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "websocket")
	req.Header.Set("Sec-WebSocket-Version", "13")
	req.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	for k, v := range header {
		if k == "Host" {
			req.Host = v
			continue
		}
		req.Header.Set(k, v)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusSwitchingProtocols {
		return res.StatusCode, "", res.Header.Get("Sec-WebSocket-Protocol")
	}
	b, _ := io.ReadAll(res.Body)
	var body fault.Body
	_ = json.Unmarshal(b, &body)
	return res.StatusCode, body.Code, ""
}

func TestSubprotocols(t *testing.T) {
	g := start(t, Config{})
	for offer, want := range map[string]string{
		"":                             "",
		"switchyard.v1.json":           "switchyard.v1.json",
		"elura.v2":                     "elura.v2",
		"chat, elura.v2":               "elura.v2",
		"elura.v2, switchyard.v1.json": "elura.v2",
		"switchyard.v1.json,elura.v2":  "switchyard.v1.json",
	} {
		for _, path := range []string{"/v1/connect", "/elura/game"} {
			h := map[string]string{}
			if offer != "" {
				h["Sec-WebSocket-Protocol"] = offer
			}
			status, _, got := g.knock(t, path, h)
			if status != 101 || got != want {
				t.Errorf("%s %q: got %d %q, want %q", path, offer, status, got, want)
				continue
			}
			c := <-g.conns
			if wantCodec := want == "elura.v2"; c.Codec().Binary() != wantCodec {
				t.Errorf("%q: codec %v", offer, c.Codec())
			}
			g.rec.wantClosed(t)
		}
	}
}

// TestRefusedHandshakes: whatever is wrong with an upgrade, the answer is an error body.
func TestRefusedHandshakes(t *testing.T) {
	g := start(t, Config{})
	for name, tc := range map[string]struct {
		method, path string
		header       map[string]string
		status       int
		code         fault.Code
	}{
		"unknown subprotocol":   {"GET", "/v1/connect", map[string]string{"Sec-WebSocket-Protocol": "chat"}, 400, fault.InvalidRequest},
		"malformed subprotocol": {"GET", "/v1/connect", map[string]string{"Sec-WebSocket-Protocol": "a@b c"}, 400, fault.InvalidRequest},
		"no upgrade":            {"GET", "/v1/connect", map[string]string{"Upgrade": ""}, 426, fault.InvalidRequest},
		"other upgrade":         {"GET", "/elura/game", map[string]string{"Upgrade": "h2c"}, 426, fault.InvalidRequest},
		"not for this hop":      {"GET", "/v1/connect", map[string]string{"Connection": "keep-alive"}, 426, fault.InvalidRequest},
		"other version":         {"GET", "/v1/connect", map[string]string{"Sec-WebSocket-Version": "8"}, 426, fault.InvalidRequest},
		"no version":            {"GET", "/v1/connect", map[string]string{"Sec-WebSocket-Version": ""}, 426, fault.InvalidRequest},
		"short key":             {"GET", "/v1/connect", map[string]string{"Sec-WebSocket-Key": "x"}, 400, fault.InvalidRequest},
		"other method":          {"POST", "/v1/connect", nil, 405, fault.InvalidRequest},
		"other path":            {"GET", "/v1/nope", nil, 404, fault.NotFound},
	} {
		if status, code, _ := g.knockBy(t, tc.method, tc.path, tc.header); status != tc.status || code != tc.code {
			t.Errorf("%s: %d %q, want %d %s", name, status, code, tc.status, tc.code)
		}
	}
	for name, header := range map[string]map[string]string{
		"one malformed beside ours": {"Sec-WebSocket-Protocol": "a@b, switchyard.v1.json"},
		"a list of options":         {"Connection": "keep-alive, Upgrade"},
	} {
		if status, _, _ := g.knock(t, "/v1/connect", header); status != 101 {
			t.Errorf("%s: %d", name, status)
			continue
		}
		<-g.conns
		g.rec.wantClosed(t)
	}
}

func TestOrigins(t *testing.T) {
	own := start(t, Config{})
	listed := start(t, Config{AllowedOrigins: []string{"https://Game.example", " http://localhost:8080/ "}})
	all := start(t, Config{AllowedOrigins: []string{"*"}})
	for _, tc := range []struct {
		name         string
		g            *gate
		origin, host string
		want         int
	}{
		{"none", own, "", "game.example", 101},
		{"own host", own, "https://game.example", "game.example", 101},
		{"own host, other case", own, "https://GAME.example", "game.example", 101},
		{"own host and port", own, "http://game.example:7000", "game.example:7000", 101},
		{"the scheme's port", own, "https://game.example", "game.example:443", 101},
		{"other port", own, "http://game.example:7001", "game.example:7000", 403},
		{"other host", own, "https://evil.example", "game.example", 403},
		{"suffix", own, "https://game.example.evil.example", "game.example", 403},
		{"null", own, "null", "game.example", 403},
		{"listed", listed, "https://game.example", "x", 101},
		{"listed with a port", listed, "http://localhost:8080", "x", 101},
		{"listed, but other scheme", listed, "http://game.example", "x", 403},
		{"own host, not listed", listed, "https://x", "x", 403},
		{"none, with a list", listed, "", "x", 101},
		{"any", all, "https://whoever.example", "x", 101},
	} {
		h := map[string]string{"Host": tc.host}
		if tc.origin != "" {
			h["Origin"] = tc.origin
		}
		status, code, _ := tc.g.knock(t, "/v1/connect", h)
		if status != tc.want || (status == 403) != (code == fault.Forbidden) {
			t.Errorf("%s: got %d %s, want %d", tc.name, status, code, tc.want)
		}
	}
}

func TestRefusedOriginsAreLogged(t *testing.T) {
	var out bytes.Buffer // the handler writes one record at a time, each before its answer
	l, err := New(Config{Listen: "127.0.0.1:0"}, Hooks{Open: func(*Conn) Events { return newRecorder() }}, slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range originLogBurst + 5 {
		r := httptest.NewRequest(http.MethodGet, "http://game.example/v1/connect", nil)
		for k, v := range map[string]string{"Upgrade": "websocket", "Connection": "Upgrade", headerVersion: version, headerKey: strings.Repeat("k", keyBytes)} {
			r.Header.Set(k, v)
		}
		r.Header.Set("Origin", fmt.Sprintf("https://evil-%d.example/%s", i, strings.Repeat("x", 1000)))
		w := httptest.NewRecorder()
		l.upgrade(w, r)
		if w.Code != http.StatusForbidden {
			t.Fatalf("%d", w.Code)
		}
	}
	logged := out.String()
	if n := strings.Count(logged, "origin refused"); n != originLogBurst || !strings.Contains(logged, "evil-0.example") {
		t.Errorf("%d records: %s", n, logged)
	}
	if strings.Contains(logged, strings.Repeat("x", maxLoggedOrigin)) {
		t.Error("an origin was logged whole")
	}
}

func TestRefusals(t *testing.T) {
	var banned atomic.Bool
	g := start(t, Config{MaxConnectionsPerIP: 2}, func(h *Hooks) {
		h.Refuse = func(ip netip.Addr) *fault.Error {
			if banned.Load() && ip.IsLoopback() {
				return fault.ErrBanned
			}
			return nil
		}
		h.Fallback = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	})
	if status, _, _ := g.knock(t, "/", nil); status != http.StatusTeapot {
		t.Errorf("fallback: %d", status)
	}
	one, _ := g.dial(t, frame.JSON)
	g.dial(t, frame.JSON)
	if status, code, _ := g.knock(t, "/v1/connect", nil); status != 429 || code != fault.RateLimited {
		t.Errorf("over the cap: %d %s", status, code)
	}
	_ = one.Close()
	eventually(t, "the place is free again", func() bool { return g.Connections() == 1 })
	g.dial(t, frame.JSON)
	banned.Store(true)
	if status, code, _ := g.knock(t, "/v1/connect", nil); status != 403 || code != fault.Banned {
		t.Errorf("banned: %d %s", status, code)
	}
	banned.Store(false)
	if status, _, _ := g.knock(t, "/v1/connect", map[string]string{"Sec-WebSocket-Version": "8"}); status < 400 {
		t.Errorf("old version: %d", status)
	}
	if n := g.Stats().Refused; n != 3 {
		t.Errorf("%d refusals counted", n)
	}
	if g.Connections() != 2 {
		t.Errorf("%d connections", g.Connections())
	}
}

func TestTCP(t *testing.T) {
	g := start(t, Config{TCPListen: "127.0.0.1:0", MaxMessageBytes: 10_000})
	frameOf := func(n int) []byte {
		return frame.ELR2.Append(nil, frame.Frame{Kind: frame.KindRequest, Route: 200, ID: 1, Payload: bytes.Repeat([]byte("z"), n)})
	}
	t.Run("whole, in pieces, and back", func(t *testing.T) {
		p, c := g.dialTCP(t)
		small, long := frameOf(3), frameOf(9_000)
		p.write(small, small, long[:27])
		p.write(long[27:5000])
		p.write(long[5000:], small[:10])
		p.write(small[10:])
		for _, want := range [][]byte{small, small, long, small} {
			g.rec.wantMessage(t, string(want))
		}
		if err := c.SendPrepared(frame.Prepare(frame.ELR2, 200, []byte("hi"), true, false), 7); err != nil {
			t.Fatal(err)
		}
		want := frame.ELR2.Append(nil, frame.Frame{Kind: frame.KindPush, Route: 200, Seq: 7, Payload: []byte("hi")})
		got := make([]byte, len(want))
		if _, err := io.ReadFull(p.in, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("got %x, %v", got, err)
		}
		_ = p.Close()
		if cause := g.rec.wantClosed(t); cause.Origin != OriginPeer {
			t.Errorf("cause %+v", cause)
		}
	})
	for name, tc := range map[string]struct {
		bytes []byte
		code  fault.CloseCode
	}{
		"no frame": {[]byte(strings.Repeat("GET / HTTP/1.1\r\n", 3)), fault.CloseProtocolViolation},
		"too big":  {frameOf(20_000)[:28], fault.CloseTooBig},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := g.dialTCP(t)
			p.write(tc.bytes)
			if cause := g.rec.wantClosed(t); cause.Code != tc.code || cause.Origin != OriginLocal {
				t.Errorf("cause %+v", cause)
			}
			if b, err := io.ReadAll(p.in); len(b) != 0 || err != nil {
				t.Errorf("got %q, %v", b, err)
			}
		})
	}
	t.Run("last words", func(t *testing.T) {
		p, c := g.dialTCP(t)
		c.Close(fault.CloseForcedLogout, frameOf(1))
		if b, err := io.ReadAll(p.in); err != nil || !bytes.Equal(b, frameOf(1)) {
			t.Errorf("got %q, %v", b, err)
		}
	})
}

func TestStopClosesWithDraining(t *testing.T) {
	g := start(t, Config{})
	p, _ := g.dial(t, frame.JSON)
	done := make(chan error)
	go func() { done <- g.Stop(context.Background()) }()
	p.wantClose(4000)
	_ = p.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", g.Addr().String()); err == nil {
		t.Error("still accepting")
	}
}

// A client that neither answers nor leaves is cut when the caller's patience ends.
func TestStopIsBounded(t *testing.T) {
	g := start(t, Config{CloseTimeout: time.Hour})
	g.dial(t, frame.JSON)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := g.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	g.rec.wantClosed(t)
}

func TestCloseIsBounded(t *testing.T) {
	g := start(t, Config{CloseTimeout: 50 * time.Millisecond})
	_, c := g.dial(t, frame.JSON)
	c.Close(fault.CloseIdleTimeout)
	eventually(t, "the silent client is gone", func() bool { return g.Connections() == 0 })
}

func TestConcurrentSendAndClose(t *testing.T) {
	g := start(t, Config{SendQueueBytes: 1 << 30})
	for range 20 {
		p, c := g.dial(t, frame.JSON)
		push := frame.Prepare(frame.JSON, 200, []byte(`"x"`), false, false)
		var wg sync.WaitGroup
		var accepted atomic.Int64
		for range 4 {
			wg.Go(func() {
				for i := uint32(1); c.SendPrepared(push, i) == nil; i++ {
					accepted.Add(1)
				}
			})
		}
		wg.Go(func() {
			for accepted.Load() < 1000 {
				g.Stats()
			}
			c.Close(fault.CloseDraining)
		})
		n := int64(0)
		for {
			h, _ := p.read()
			if h.OpCode == ws.OpClose {
				break
			}
			n++
		}
		wg.Wait()
		if n != accepted.Load() { // what was accepted is delivered
			t.Fatalf("%d messages arrived, %d were accepted", n, accepted.Load())
		}
		_ = p.Close()
	}
}

func TestConfig(t *testing.T) {
	open := func(*Conn) Events { return nil }
	for name, cfg := range map[string]Config{
		"no address": {}, "negative size": {Listen: "x", SendQueueBytes: -1}, "negative time": {Listen: "x", WriteTimeout: -1},
	} {
		if _, err := New(cfg, Hooks{Open: open}, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := New(Config{Listen: "x"}, Hooks{}, nil); err == nil {
		t.Error("no Open: accepted")
	}
}

// TestStopDoesNotWaitForClientsThatHangOn: neither for one that a drain has closed before, nor for
// one that Stop closes itself.
func TestStopDoesNotWaitForClientsThatHangOn(t *testing.T) {
	g := start(t, Config{CloseTimeout: time.Minute})
	drained, conn := g.dial(t, frame.JSON)
	stayed, _ := g.dial(t, frame.JSON)
	conn.Close(fault.CloseDraining)
	drained.wantClose(4000)
	g.rec.wantClosed(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := g.Stop(ctx); err != nil {
		t.Fatalf("stop: %v", err)
	}
	stayed.wantClose(4000)
	if n := g.Connections(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}
