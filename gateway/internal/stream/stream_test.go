package stream

import (
	"bytes"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// notes is a Sink that remembers.
type notes struct {
	messages []string
	pings    []string
	active   int
	shut     bool
}

func (n *notes) Open() bool         { return !n.shut }
func (n *notes) Active()            { n.active++ }
func (n *notes) Message(msg []byte) { n.messages = append(n.messages, string(msg)) }
func (n *notes) Ping(p []byte)      { n.pings = append(n.pings, string(p)) }

// feedAll hands bytes to a parser in the given pieces, as a Reader would.
func feedAll(p Parser, b []byte, piece func() int) *End {
	var buf []byte
	for len(b) > 0 {
		n := min(piece(), len(b), bufferBytes-len(buf))
		buf = append(buf, b[:n]...)
		b = b[n:]
		used, end := p.feed(buf)
		if end != nil {
			return end
		}
		buf = append([]byte(nil), buf[used:]...)
		if len(buf) >= bufferBytes {
			panic("the parser keeps a whole buffer")
		}
	}
	return nil
}

// However messages are fragmented, and however the bytes are cut on their way, the same messages
// and pings come out.
func TestWebSocketReassembly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		client := rapid.Bool().Draw(t, "client")
		build := func(op ws.OpCode, fin bool, payload string) []byte {
			f := ws.NewFrame(op, fin, []byte(payload))
			if !client {
				f = ws.MaskFrame(f)
			}
			return ws.MustCompileFrame(f)
		}
		var wire []byte
		var want notes
		for range rapid.IntRange(1, 6).Draw(t, "messages") {
			msg := strings.Repeat(rapid.SampledFrom([]string{"", "a", "é", "0123456789"}).Draw(t, "unit"), rapid.IntRange(0, 900).Draw(t, "times"))
			want.messages = append(want.messages, msg)
			op := ws.OpText
			for rapid.IntRange(0, 2).Draw(t, "split") == 0 {
				n := rapid.IntRange(0, len(msg)).Draw(t, "at")
				wire = append(wire, build(op, false, msg[:n])...)
				msg, op = msg[n:], ws.OpContinuation
				if rapid.Bool().Draw(t, "ping") {
					p := strings.Repeat("p", rapid.IntRange(0, 125).Draw(t, "length"))
					want.pings = append(want.pings, p)
					wire = append(wire, build(ws.OpPing, true, p)...)
				}
			}
			wire = append(wire, build(op, true, msg)...)
		}
		var got notes
		p := WebSocket(&got, Options{Client: client, Limit: 1 << 20})
		if end := feedAll(p, wire, func() int { return rapid.IntRange(1, 5000).Draw(t, "piece") }); end != nil {
			t.Fatalf("ended: %+v", end)
		}
		if strings.Join(got.messages, "|") != strings.Join(want.messages, "|") || strings.Join(got.pings, "|") != strings.Join(want.pings, "|") {
			t.Fatalf("got %q %q, want %q %q", got.messages, got.pings, want.messages, want.pings)
		}
		if !p.idle() || got.active == 0 {
			t.Fatal("not between messages, or never active")
		}
	})
}

func TestELR2Reassembly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var wire []byte
		var want []string
		for i := range rapid.IntRange(1, 6).Draw(t, "frames") {
			b := frame.ELR2.Append(nil, frame.Frame{
				Kind: frame.KindRequest, Route: 200, ID: uint64(i + 1),
				Payload: bytes.Repeat([]byte("z"), rapid.IntRange(0, 9000).Draw(t, "bytes")),
			})
			want = append(want, string(b))
			wire = append(wire, b...)
		}
		var got notes
		p := ELR2(&got, 1<<20)
		if end := feedAll(p, wire, func() int { return rapid.IntRange(1, 5000).Draw(t, "piece") }); end != nil {
			t.Fatalf("ended: %+v", end)
		}
		if strings.Join(got.messages, "") != strings.Join(want, "") || len(got.messages) != len(want) || !p.idle() {
			t.Fatalf("%d frames, want %d", len(got.messages), len(want))
		}
	})
}

func TestNothingAfterShut(t *testing.T) {
	n := notes{shut: true}
	p := WebSocket(&n, Options{Limit: 100})
	wire := ws.MustCompileFrame(ws.MaskFrame(ws.NewTextFrame([]byte("x"))))
	if used, end := p.feed(wire); used != len(wire) || end != nil || len(n.messages) != 0 {
		t.Fatalf("got %d %v %v", used, end, n.messages)
	}
}

// fuzzParser: whatever comes, and however it is cut, nothing panics, memory follows the bytes that
// came, and the outcome does not depend on the cuts.
func fuzzParser(f *testing.F, build func(Sink) Parser) {
	f.Fuzz(func(t *testing.T, wire []byte, step uint8) {
		var whole, cut notes
		a := feedAll(build(&whole), bytes.Clone(wire), func() int { return bufferBytes })
		b := feedAll(build(&cut), bytes.Clone(wire), func() int { return int(step)%64 + 1 })
		if (a == nil) != (b == nil) || a != nil && (a.Peer != b.Peer || a.Code != b.Code || a.TooBig != b.TooBig) {
			t.Fatalf("whole: %+v, cut: %+v", a, b)
		}
		if strings.Join(whole.messages, "|") != strings.Join(cut.messages, "|") {
			t.Fatalf("whole: %q, cut: %q", whole.messages, cut.messages)
		}
	})
}

func FuzzWebSocket(f *testing.F) {
	for _, fr := range []ws.Frame{
		ws.NewTextFrame([]byte("hello")), ws.NewPingFrame([]byte("p")), ws.NewFrame(ws.OpText, false, []byte("a")),
		ws.NewFrame(ws.OpContinuation, true, []byte("b")), ws.NewCloseFrame(ws.NewCloseFrameBody(1000, "bye")),
	} {
		f.Add(ws.MustCompileFrame(ws.MaskFrame(fr)), uint8(3))
	}
	fuzzParser(f, func(s Sink) Parser { return WebSocket(s, Options{Limit: 5000}) })
}

func FuzzELR2Stream(f *testing.F) {
	f.Add(frame.ELR2.Append(nil, frame.Frame{Kind: frame.KindRequest, Route: 1, ID: 1, Payload: []byte("x")}), uint8(1))
	fuzzParser(f, func(s Sink) Parser { return ELR2(s, 5000) })
}

func TestReaderHoldsNoBufferWhileParked(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	dialed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dialed.Close() }()
	sock, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sock.Close() }()
	raw, err := sock.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n notes
	r := NewReader(raw, WebSocket(&n, Options{Limit: 100}))
	wire := ws.MustCompileFrame(ws.MaskFrame(ws.NewTextFrame([]byte("x"))))
	// Bytes that came before the first read must not be missed.
	if _, err := dialed.Write(wire); err != nil {
		t.Fatal(err)
	}
	_ = sock.SetReadDeadline(time.Now().Add(10 * time.Second))
	for len(n.messages) == 0 {
		if _, end, err := r.Next(); end != nil || err != nil {
			t.Fatalf("got %v, %v", end, err)
		}
	}
	if r.buf != nil || !r.Between() {
		t.Error("a buffer is held between two messages")
	}
	_ = sock.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if _, _, err := r.Next(); !os.IsTimeout(err) || r.buf != nil {
		t.Errorf("parked: %v, buffer %v", err, r.buf != nil)
	}
	if _, err := dialed.Write(wire[:3]); err != nil {
		t.Fatal(err)
	}
	_ = sock.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, _, err := r.Next(); err != nil || r.have != 3 || r.Between() {
		t.Errorf("half a frame: %v, %d bytes kept", err, r.have)
	}
	r.Release()
}
