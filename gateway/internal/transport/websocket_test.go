package transport

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/gobwas/ws"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/shared/fault"
)

func TestMessages(t *testing.T) {
	g := start(t, Config{})
	p, c := g.dial(t, frame.JSON)
	if !c.RemoteIP().IsLoopback() || c.Listener() != "websocket" || c.Codec() != frame.JSON {
		t.Fatalf("got %v %v %v", c.RemoteIP(), c.Listener(), c.Codec())
	}
	long := strings.Repeat("0123456789", 20_000)
	p.write(masked(ws.OpText, true, `{"a":1}`), masked(ws.OpText, true, ""), masked(ws.OpText, true, long))
	g.rec.wantMessage(t, `{"a":1}`)
	g.rec.wantMessage(t, "")
	g.rec.wantMessage(t, long)
	// Sizes around the read buffer and the forms of the length.
	for _, n := range []int{125, 126, 4081, 4082, 4083, 4087, 4088, 4089, 4096, 4097, 8192, 65535, 65536} {
		p.write(masked(ws.OpText, true, long[:n]), masked(ws.OpText, true, "x"))
		g.rec.wantMessage(t, long[:n])
		g.rec.wantMessage(t, "x")
	}
	if s := g.Stats(); s.MessagesIn != 3+26 || s.BytesIn < 200_000 {
		t.Errorf("stats %+v", s)
	}
}

func TestFragmentsWithControlFramesBetween(t *testing.T) {
	g := start(t, Config{})
	p, _ := g.dial(t, frame.JSON)
	p.write(masked(ws.OpText, false, "\xc3"), masked(ws.OpPing, true, "are you there"),
		masked(ws.OpContinuation, false, ""), masked(ws.OpPong, true, "unasked"), masked(ws.OpContinuation, true, "\xa9!"))
	g.rec.wantMessage(t, "é!")
	h, b := p.read()
	if h.OpCode != ws.OpPong || string(b) != "are you there" || h.Masked {
		t.Fatalf("got %v %q", h, b)
	}
	g.rec.mu.Lock()
	defer g.rec.mu.Unlock()
	if g.rec.actives == 0 {
		t.Error("a control frame is no activity")
	}
}

func TestByteByByte(t *testing.T) {
	g := start(t, Config{})
	p, _ := g.dial(t, frame.JSON)
	long := strings.Repeat("x", 300)
	for _, b := range [][]byte{masked(ws.OpPing, true, "p"), masked(ws.OpText, false, "a"), masked(ws.OpContinuation, true, long)} {
		for i := range b {
			p.write(b[i : i+1])
		}
	}
	g.rec.wantMessage(t, "a"+long)
	if h, _ := p.read(); h.OpCode != ws.OpPong {
		t.Fatalf("got %v", h)
	}
}

func TestViolations(t *testing.T) {
	frameOf := func(change func(*ws.Header)) []byte {
		f := ws.MaskFrame(ws.NewTextFrame([]byte("x")))
		change(&f.Header)
		return ws.MustCompileFrame(f)
	}
	const limit = 1000
	big := strings.Repeat("x", limit+1)
	for name, tc := range map[string]struct {
		codec frame.Codec
		bytes []byte
		code  uint16
	}{
		"unmasked":                  {frame.JSON, ws.MustCompileFrame(ws.NewTextFrame([]byte("x"))), 4500},
		"reserved bit":              {frame.JSON, frameOf(func(h *ws.Header) { h.Rsv = ws.Rsv(true, false, false) }), 4500},
		"reserved data opcode":      {frame.JSON, frameOf(func(h *ws.Header) { h.OpCode = 3 }), 4500},
		"reserved control opcode":   {frame.JSON, frameOf(func(h *ws.Header) { h.OpCode = 11 }), 4500},
		"fragmented ping":           {frame.JSON, masked(ws.OpPing, false, "x"), 4500},
		"long ping":                 {frame.JSON, masked(ws.OpPing, true, big[:126]), 4500},
		"lonely continuation":       {frame.JSON, masked(ws.OpContinuation, true, "x"), 4500},
		"interrupted fragments":     {frame.JSON, append(masked(ws.OpText, false, "x"), masked(ws.OpText, true, "x")...), 4500},
		"binary for JSON":           {frame.JSON, masked(ws.OpBinary, true, "{}"), 4500},
		"text for ELR2":             {frame.ELR2, masked(ws.OpText, true, "{}"), 4500},
		"not UTF-8":                 {frame.JSON, masked(ws.OpText, true, "\xff"), 4500},
		"not UTF-8, fragments":      {frame.JSON, append(masked(ws.OpText, false, "\xc3"), masked(ws.OpContinuation, true, "x")...), 4500},
		"length with the top bit":   {frame.JSON, []byte{0x81, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4}, 4500},
		"length in two bytes":       {frame.JSON, []byte{0x81, 0xfe, 0, 1, 1, 2, 3, 4, 'x' ^ 1}, 4500},
		"length in eight bytes":     {frame.JSON, []byte{0x81, 0xff, 0, 0, 0, 0, 0, 0, 0, 126, 1, 2, 3, 4}, 4500},
		"close with one byte":       {frame.JSON, masked(ws.OpClose, true, "x"), 4500},
		"close with a bad code":     {frame.JSON, masked(ws.OpClose, true, "\x03\xed"), 4500},
		"close with bad words":      {frame.JSON, masked(ws.OpClose, true, "\x03\xe8\xff"), 4500},
		"too big":                   {frame.JSON, masked(ws.OpText, true, big), 4506},
		"too big, header only":      {frame.JSON, masked(ws.OpText, true, big)[:14], 4506},
		"too big, ELR2":             {frame.ELR2, masked(ws.OpBinary, true, big), 4506},
		"absurdly big, header only": {frame.JSON, []byte{0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4}, 4506},
		"too big, fragments":        {frame.JSON, append(masked(ws.OpText, false, big[:600]), masked(ws.OpContinuation, true, big[:600])...), 4506},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, Config{MaxMessageBytes: limit})
			p, _ := g.dial(t, tc.codec)
			p.write(tc.bytes)
			p.wantClose(tc.code)
			if c := g.rec.wantClosed(t); c.Origin != OriginLocal || uint16(c.Code) != tc.code || c.Err == nil {
				t.Errorf("cause %+v", c)
			}
			if n := len(g.rec.messages); n != 0 {
				t.Errorf("%d messages were delivered", n)
			}
			s := g.Stats()
			if s.Violations+s.TooBig != 1 || (s.TooBig == 1) != (tc.code == 4506) {
				t.Errorf("stats %+v", s)
			}
		})
	}
	t.Run("the limit itself is fine", func(t *testing.T) {
		g := start(t, Config{MaxMessageBytes: limit})
		p, _ := g.dial(t, frame.JSON)
		p.write(masked(ws.OpText, true, big[:limit]), masked(ws.OpText, false, big[:600]), masked(ws.OpContinuation, true, big[:400]))
		g.rec.wantMessage(t, big[:limit])
		g.rec.wantMessage(t, big[:limit])
	})
}

func TestNothingIsDeliveredAfterAViolation(t *testing.T) {
	g := start(t, Config{})
	p, _ := g.dial(t, frame.JSON)
	p.write(masked(ws.OpText, true, "before"), masked(ws.OpBinary, true, "x"), masked(ws.OpText, true, "after"))
	g.rec.wantMessage(t, "before")
	p.wantClose(4500)
	g.rec.wantClosed(t)
	if len(g.rec.messages) != 0 {
		t.Error("a message after the violation was delivered")
	}
}

func TestClientSaysGoodbye(t *testing.T) {
	for name, tc := range map[string]struct {
		payload string
		code    uint16
	}{"with a code": {"\x03\xe9going away", 1001}, "without": {"", 0}, "own code": {"\x0f\xa1", 4001}} {
		t.Run(name, func(t *testing.T) {
			g := start(t, Config{})
			p, c := g.dial(t, frame.JSON)
			p.write(masked(ws.OpClose, true, tc.payload))
			h, b := p.read()
			code, _ := ws.ParseCloseFrameData(b)
			if h.OpCode != ws.OpClose || uint16(code) != tc.code {
				t.Fatalf("got %v %q", h, b)
			}
			if cause := g.rec.wantClosed(t); cause.Origin != OriginPeer || cause.PeerCode != tc.code {
				t.Errorf("cause %+v", cause)
			}
			if err := c.Send([]byte("x")); !errors.Is(err, ErrClosed) {
				t.Errorf("send: %v", err)
			}
		})
	}
}

func TestBrokenConnections(t *testing.T) {
	for name, brk := range map[string]func(*peer){
		"end without a close frame": func(p *peer) { _ = p.Close() },
		"reset":                     func(p *peer) { _ = p.Conn.(*net.TCPConn).SetLinger(0); _ = p.Close() },
		"end amid a header":         func(p *peer) { p.write([]byte{0x81}); _ = p.Close() },
		"end amid a message":        func(p *peer) { p.write(masked(ws.OpText, true, "hello")[:8]); _ = p.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, Config{})
			p, _ := g.dial(t, frame.JSON)
			brk(p)
			if cause := g.rec.wantClosed(t); cause.Origin != OriginBroken || cause.Err == nil {
				t.Errorf("cause %+v", cause)
			}
			eventually(t, "the connection is gone", func() bool { return g.Connections() == 0 })
		})
	}
}

// A client may send its first frames right behind the upgrade request.
func TestBytesBehindTheUpgrade(t *testing.T) {
	g := start(t, Config{})
	conn, err := net.Dial("tcp", g.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	p := &peer{Conn: conn, t: t, in: conn}
	long := strings.Repeat("y", 10_000)
	p.write([]byte("GET /v1/connect HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"),
		masked(ws.OpText, true, "early"), masked(ws.OpText, true, long))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v, %v", res, err)
	}
	if sub := res.Header.Get("Sec-WebSocket-Protocol"); sub != "" {
		t.Errorf("a subprotocol that was not offered: %q", sub)
	}
	g.rec.wantMessage(t, "early")
	g.rec.wantMessage(t, long)
	if c := <-g.conns; c.Codec() != frame.JSON {
		t.Error("no subprotocol must mean JSON")
	}
}

func TestI1_NothingIsAcceptedAfterClose(t *testing.T) {
	g := start(t, Config{})
	p, c := g.dial(t, frame.JSON)
	if err := c.Send([]byte(`"queued"`)); err != nil {
		t.Fatal(err)
	}
	c.Close(fault.CloseReplaced, []byte(`"last one"`), []byte(`"last two"`))
	c.Close(fault.CloseInternal, []byte(`"never"`))
	if err := c.Send([]byte(`"late"`)); !errors.Is(err, ErrClosed) {
		t.Errorf("send after close: %v", err)
	}
	if err := c.SendPrepared(frame.Prepare(frame.JSON, 200, nil, false, false), 1); !errors.Is(err, ErrClosed) {
		t.Errorf("prepared send after close: %v", err)
	}
	for _, want := range []string{`"queued"`, `"last one"`, `"last two"`} {
		if _, b := p.read(); string(b) != want {
			t.Fatalf("got %q, want %q", b, want)
		}
	}
	p.wantClose(4502)
	if cause := g.rec.wantClosed(t); cause.Origin != OriginLocal || cause.Code != fault.CloseReplaced {
		t.Errorf("cause %+v", cause)
	}
	_ = p.Close()
	eventually(t, "the connection is gone", func() bool { return g.Connections() == 0 })
	if len(g.rec.closed) != 0 {
		t.Error("Closed was called twice")
	}
}

func TestCloseInsideACallback(t *testing.T) {
	g := start(t, Config{})
	g.rec.handle = func(c *Conn, msg []byte) {
		if string(msg) != "bye" {
			t.Errorf("a message after Close: %q", msg)
		}
		c.Close(fault.CloseForcedLogout, []byte(`"why"`))
	}
	p, _ := g.dial(t, frame.JSON)
	p.write(masked(ws.OpText, true, "bye"), masked(ws.OpText, true, "more"))
	if _, b := p.read(); string(b) != `"why"` {
		t.Fatalf("got %q", b)
	}
	p.wantClose(4505)
}
