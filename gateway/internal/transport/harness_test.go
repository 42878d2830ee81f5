package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/shared/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what should come at once.
const patience = 10 * time.Second

// recorder is an Events that keeps what happened, and echoes when told to.
type recorder struct {
	echo     bool
	handle   func(*Conn, []byte)
	messages chan []byte
	closed   chan Cause
	mu       sync.Mutex
	actives  int
}

func newRecorder() *recorder {
	return &recorder{messages: make(chan []byte, 1024), closed: make(chan Cause, 16384)}
}

func (r *recorder) Message(c *Conn, msg []byte) {
	if r.handle != nil {
		r.handle(c, msg)
		return
	}
	if r.echo {
		_ = c.Send(bytes.Clone(msg))
		return
	}
	r.messages <- bytes.Clone(msg)
}

func (r *recorder) Active(*Conn) {
	r.mu.Lock()
	r.actives++
	r.mu.Unlock()
}

func (r *recorder) Closed(_ *Conn, cause Cause) { r.closed <- cause }

// gate is a running Listener.
type gate struct {
	*Listener
	rec   *recorder
	conns chan *Conn
}

func start(t testing.TB, cfg Config, hooks ...func(*Hooks)) *gate {
	t.Helper()
	cfg.Listen = "127.0.0.1:0"
	g := &gate{rec: newRecorder(), conns: make(chan *Conn, 16384)}
	h := Hooks{Open: func(c *Conn) Events { g.conns <- c; return g.rec }}
	for _, f := range hooks {
		f(&h)
	}
	l, err := New(cfg, h, slog.New(slog.DiscardHandler))
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
		if n := l.Connections(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
	return g
}

// peer is a client whose every byte is the test's choice.
type peer struct {
	net.Conn
	t  testing.TB
	in io.Reader
}

func (g *gate) url(path string) string { return "ws://" + g.Addr().String() + path }

func (g *gate) dial(t testing.TB, codec frame.Codec) (*peer, *Conn) {
	t.Helper()
	d := ws.Dialer{Protocols: []string{codec.Name()}}
	conn, br, hs, err := d.Dial(context.Background(), g.url("/v1/connect"))
	if err != nil {
		t.Fatal(err)
	}
	if hs.Protocol != codec.Name() {
		t.Fatalf("subprotocol %q", hs.Protocol)
	}
	p := &peer{Conn: conn, t: t, in: conn}
	if br != nil {
		p.in = br
	}
	t.Cleanup(func() { _ = conn.Close() })
	return p, <-g.conns
}

func (g *gate) dialTCP(t testing.TB) (*peer, *Conn) {
	t.Helper()
	conn, err := net.Dial("tcp", g.TCPAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &peer{Conn: conn, t: t, in: conn}, <-g.conns
}

// masked builds a client's frame.
func masked(op ws.OpCode, fin bool, payload string) []byte {
	return ws.MustCompileFrame(ws.MaskFrame(ws.NewFrame(op, fin, []byte(payload))))
}

func (p *peer) write(parts ...[]byte) {
	p.t.Helper()
	_ = p.SetWriteDeadline(time.Now().Add(patience))
	if _, err := p.Write(bytes.Join(parts, nil)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) read() (ws.Header, []byte) {
	p.t.Helper()
	h, b, err := p.tryRead()
	if err != nil {
		p.t.Fatalf("read: %v", err)
	}
	return h, b
}

func (p *peer) tryRead() (ws.Header, []byte, error) {
	_ = p.SetReadDeadline(time.Now().Add(patience))
	h, err := ws.ReadHeader(p.in)
	if err != nil {
		return h, nil, err
	}
	b := make([]byte, h.Length)
	_, err = io.ReadFull(p.in, b)
	return h, b, err
}

// wantClose skips data frames until the close frame, and then expects the end of the stream.
func (p *peer) wantClose(code uint16) {
	p.t.Helper()
	for {
		h, b := p.read()
		if h.OpCode != ws.OpClose {
			continue
		}
		got, reason := ws.ParseCloseFrameData(b)
		if uint16(got) != code {
			p.t.Fatalf("closed with %d %q, want %d", got, reason, code)
		}
		if want := fault.CloseCode(code).String(); code >= 4000 && reason != want {
			p.t.Fatalf("reason %q, want %q", reason, want)
		}
		break
	}
	if _, _, err := p.tryRead(); !errors.Is(err, io.EOF) {
		p.t.Fatalf("after the close frame: %v, want EOF", err)
	}
}

func (r *recorder) wantMessage(t testing.TB, want string) {
	t.Helper()
	select {
	case got := <-r.messages:
		if string(got) != want {
			t.Fatalf("message of %d bytes %.40q, want %d bytes %.40q", len(got), got, len(want), want)
		}
	case <-time.After(patience):
		t.Fatalf("no message, want %.40q", want)
	}
}

func (r *recorder) wantClosed(t testing.TB) Cause {
	t.Helper()
	select {
	case c := <-r.closed:
		return c
	case <-time.After(patience):
		t.Fatal("Closed was not called")
		return Cause{}
	}
}

// eventually waits for a condition that no event tells of.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}
