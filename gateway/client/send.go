package client

import (
	"encoding/binary"
	"strconv"
	"sync"
	"time"

	"github.com/gobwas/ws"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
)

// writeBuffers hold one message while it is being sent; large ones are not kept.
var writeBuffers = sync.Pool{New: func() any { return new([]byte) }}

const keptBuffer = 64 << 10

// send writes one frame as one message.
func (c *Client) send(f frame.Frame) error {
	op := ws.OpText
	if c.codec.Binary() {
		op = ws.OpBinary
	}
	return c.writeWith(op, func(b []byte) []byte { return c.codec.Append(b, f) })
}

func (c *Client) write(op ws.OpCode, payload []byte) error {
	return c.writeWith(op, func(b []byte) []byte { return append(b, payload...) })
}

// sendGoodbye writes a close frame, or ends a plain stream.
func (c *Client) sendGoodbye(code uint16) error {
	if c.stream {
		return c.sock.CloseWrite()
	}
	var body []byte
	if code != 0 {
		body = binary.BigEndian.AppendUint16(body, code)
	}
	return c.write(ws.OpClose, body)
}

// writeWith sends what fill appends, with a masked WebSocket header before it. A socket that
// takes no more for writeTimeout is broken for good: half a message may have gone.
func (c *Client) writeWith(op ws.OpCode, fill func([]byte) []byte) error {
	kept := writeBuffers.Get().(*[]byte)
	defer writeBuffers.Put(kept)
	var room [ws.MaxHeaderSize]byte
	b := fill(append((*kept)[:0], room[:]...))
	if cap(b) <= keptBuffer {
		*kept = b
	}
	out := b[ws.MaxHeaderSize:]
	if !c.stream {
		out = maskInPlace(b, op)
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	_ = c.sock.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := c.sock.Write(out); err != nil {
		_ = c.sock.CloseRead() // wakes the reader, which ends the client
		return err
	}
	return nil
}

// maskInPlace makes a frame of the message that begins at MaxHeaderSize, with its header right
// before it.
func maskInPlace(b []byte, op ws.OpCode) []byte {
	body := b[ws.MaxHeaderSize:]
	mask := ws.NewMask()
	ws.Cipher(body, mask, 0)
	var head [ws.MaxHeaderSize]byte
	h := append(head[:0], 0x80|byte(op))
	switch n := len(body); {
	case n <= 125:
		h = append(h, 0x80|byte(n))
	case n <= 0xffff:
		h = binary.BigEndian.AppendUint16(append(h, 0x80|126), uint16(n))
	default:
		h = binary.BigEndian.AppendUint64(append(h, 0x80|127), uint64(n))
	}
	h = append(h, mask[:]...)
	start := ws.MaxHeaderSize - len(h)
	copy(b[start:], h)
	return b[start:]
}

// Ack acknowledges pushes by their sequence numbers (JSON only).
func (c *Client) Ack(seqs ...uint32) error {
	if c.codec == frame.ELR2 {
		return ErrNoAck
	}
	b := append(make([]byte, 0, 64), `{"seqs":[`...)
	for i, seq := range seqs {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(seq), 10)
	}
	return c.notify(frame.RouteAcknowledge, append(b, ']', '}'))
}

// Heartbeat tells the gateway that the client lives, and what it has seen. It is sent by itself
// after Authenticate, unless Options.NoHeartbeat is set.
func (c *Client) Heartbeat() error {
	if c.codec == frame.ELR2 {
		return c.notify(frame.RouteHeartbeat, nil)
	}
	b := append(make([]byte, 0, 32), `{"last_seq":`...)
	b = strconv.AppendUint(b, uint64(c.LastSeq()), 10)
	return c.notify(frame.RouteHeartbeat, append(b, '}'))
}
