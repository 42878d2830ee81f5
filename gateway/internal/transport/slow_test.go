package transport

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/shared/fault"
)

// A client that reads nothing is cut; it learns why when it reads again; its neighbours notice
// nothing.
func TestSlowReaderIsCutAlone(t *testing.T) {
	g := start(t, Config{SendQueueBytes: 256 << 10, CloseTimeout: 20 * time.Second})
	stuck, slow := g.dial(t, frame.JSON)
	neighbour, well := g.dial(t, frame.JSON)
	push := frame.Prepare(frame.JSON, 200, []byte(`"`+string(bytes.Repeat([]byte("x"), 10_000))+`"`), false, false)
	latencies := make([]time.Duration, 0, 4096)
	var err error
	for seq := uint32(1); err == nil; seq++ {
		if seq > 100_000 {
			t.Fatal("never cut")
		}
		err = slow.SendPrepared(push, seq)
		begin := time.Now()
		if e := well.SendPrepared(push, seq); e != nil {
			t.Fatalf("the neighbour was cut: %v", e)
		}
		neighbour.read()
		latencies = append(latencies, time.Since(begin))
	}
	if !errors.Is(err, ErrOverflow) {
		t.Fatalf("got %v", err)
	}
	if e := slow.SendPrepared(push, 0); !errors.Is(e, ErrClosed) {
		t.Errorf("after the cut: %v", e)
	}
	if cause := g.rec.wantClosed(t); cause.Code != fault.CloseSlowConsumer || cause.Origin != OriginLocal {
		t.Errorf("cause %+v", cause)
	}
	if q := slow.Queued(); q > gatherBytes+20_000 {
		t.Errorf("%d bytes are still queued after the cut", q)
	}
	slices.Sort(latencies)
	if p := latencies[len(latencies)*95/100]; p > 500*time.Millisecond {
		t.Errorf("the neighbour waited %s", p)
	}
	stuck.wantClose(4001)
	if s := g.Stats(); s.Overflows != 1 || s.WriteTimeouts != 0 {
		t.Errorf("stats %+v", s)
	}
}

// The close frame of a client that was cut lies in the kernel, so it arrives even when the client
// reads again long after the gateway has let go.
func TestSlowReaderLearnsLate(t *testing.T) {
	g := start(t, Config{SendQueueBytes: 64 << 10, CloseTimeout: 100 * time.Millisecond})
	stuck, slow := g.dial(t, frame.JSON)
	msg := bytes.Repeat([]byte("x"), 10_000)
	for slow.Send(msg) == nil {
	}
	eventually(t, "the connection is gone", func() bool { return g.Connections() == 0 })
	stuck.wantClose(4001)
}

// With less than a full queue, the lack of progress is what counts.
func TestWriteWithoutProgress(t *testing.T) {
	g := start(t, Config{SendQueueBytes: 64 << 20, WriteTimeout: 50 * time.Millisecond})
	stuck, slow := g.dial(t, frame.ELR2)
	msg := bytes.Repeat([]byte("x"), 1<<20)
	for range 16 {
		if err := slow.Send(msg); err != nil {
			break
		}
	}
	if cause := g.rec.wantClosed(t); cause.Code != fault.CloseSlowConsumer {
		t.Fatalf("cause %+v", cause)
	}
	stuck.wantClose(4001)
	if s := g.Stats(); s.WriteTimeouts != 1 || s.Overflows != 0 {
		t.Errorf("stats %+v", s)
	}
}

// A client that is slow, but reads, gets everything in order.
func TestSlowButSteady(t *testing.T) {
	g := start(t, Config{SendQueueBytes: 64 << 20})
	p, c := g.dial(t, frame.JSON)
	const n = 3000
	sizes := []int{10, 200, 5000, 40_000}
	for i := range n {
		if err := c.Send(bytes.Repeat([]byte{byte('a' + i%26)}, sizes[i%len(sizes)])); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		h, b := p.read()
		if h.OpCode != ws.OpText || len(b) != sizes[i%len(sizes)] || b[0] != byte('a'+i%26) || b[len(b)-1] != b[0] {
			t.Fatalf("message %d: %v, %d bytes", i, h, len(b))
		}
	}
	eventually(t, "the queue is empty", func() bool { return c.Queued() == 0 })
	c.Close(fault.CloseDraining)
	p.wantClose(4000)
}

// One message may be larger than the queue's bound.
func TestMessageLargerThanTheQueue(t *testing.T) {
	g := start(t, Config{SendQueueBytes: 1000})
	p, c := g.dial(t, frame.JSON)
	if err := c.Send(bytes.Repeat([]byte("x"), 100_000)); err != nil {
		t.Fatal(err)
	}
	if _, b := p.read(); len(b) != 100_000 {
		t.Fatalf("%d bytes", len(b))
	}
}

// A client that pings and does not read fills its queue like any other.
func TestPingFlood(t *testing.T) {
	g := start(t, Config{SendQueueBytes: 4096, CloseTimeout: 50 * time.Millisecond})
	p, _ := g.dial(t, frame.JSON)
	ping := bytes.Repeat(masked(ws.OpPing, true, string(make([]byte, 125))), 100)
	_ = p.SetWriteDeadline(time.Now().Add(patience))
	for {
		if _, err := p.Write(ping); err != nil {
			break
		}
	}
	if cause := g.rec.wantClosed(t); cause.Code != fault.CloseSlowConsumer {
		t.Fatalf("cause %+v", cause)
	}
}

// A connection whose client vanished half-way holds nothing but its place until the session's
// deadline closes it.
func TestHalfOpen(t *testing.T) {
	g := start(t, Config{CloseTimeout: 50 * time.Millisecond})
	_, c := g.dial(t, frame.JSON)
	c.Close(fault.CloseAuthenticationTimeout)
	eventually(t, "the place is free", func() bool { return g.Connections() == 0 })
	// A request that is never finished.
	g = start(t, Config{HandshakeTimeout: 50 * time.Millisecond})
	conn, err := net.Dial("tcp", g.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("GET /v1/connect HTTP/1.1\r\nHost: x\r\n")); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("the half-sent request was not cut: %v", err)
	}
}
