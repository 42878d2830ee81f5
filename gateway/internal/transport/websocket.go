package transport

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

var (
	errTextOnly   = errors.New("binary message with a text subprotocol")
	errBinaryOnly = errors.New("text message with a binary subprotocol")
	errUTF8       = errors.New("text message is not UTF-8")
	errCloseBody  = errors.New("close frame with one byte")
)

// socketParser cuts a WebSocket stream of a client in messages (RFC 6455; the rules for headers
// are gobwas/ws's). A message that lies whole in the chunk is handed on from there; any other is
// put together in own memory, which grows with what arrives, never with what a header promises.
type socketParser struct {
	conn    *Conn
	src     bytes.Reader
	scratch [ws.MaxHeaderSize - 2]byte
	active  bool // Active was called for this chunk

	inFrame   bool      // amid a data frame of a message under construction
	fragments bool      // between two frames of a fragmented message
	op        ws.OpCode // of the message under construction
	header    ws.Header // of the frame that we are in
	left      int64     // bytes that it still lacks
	msg       []byte
}

func (p *socketParser) idle() bool { return !p.inFrame && !p.fragments }

func (p *socketParser) feed(chunk []byte) (used int, v *verdict) {
	p.active = false
	for used < len(chunk) && p.conn.open() {
		n, v := p.step(chunk[used:])
		if v != nil {
			return used, v
		}
		if n == 0 { // an incomplete header or control frame
			return used, nil
		}
		used += n
	}
	if !p.conn.open() {
		used = len(chunk)
	}
	return used, nil
}

// step handles one frame, or a part of one, at the start of b.
func (p *socketParser) step(b []byte) (int, *verdict) {
	if p.inFrame {
		return p.more(b)
	}
	p.src.Reset(b)
	h, err := ws.ReadHeaderBuffer(&p.src, p.scratch[:])
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return 0, nil
	}
	state := ws.StateServerSide
	if p.fragments {
		state = state.Set(ws.StateFragmented)
	}
	if err == nil {
		err = ws.CheckHeader(h, state)
	}
	if err != nil {
		return 0, violation(err)
	}
	head := len(b) - p.src.Len()
	if h.OpCode.IsControl() {
		return p.control(h, b, head)
	}
	return p.data(h, b, head)
}

func (p *socketParser) control(h ws.Header, b []byte, head int) (int, *verdict) {
	end := head + int(h.Length)
	if len(b) < end {
		return 0, nil
	}
	payload := b[head:end]
	ws.Cipher(payload, h.Mask, 0)
	p.sawFrame()
	switch h.OpCode {
	case ws.OpPing:
		// A client that pings and does not read fills its queue, and is cut for it.
		_ = p.conn.enqueue(item{data: slices.Clone(payload), op: ws.OpPong})
	case ws.OpClose:
		return end, closeVerdict(payload)
	}
	return end, nil
}

// closeVerdict answers the client's close frame with the same code.
func closeVerdict(payload []byte) *verdict {
	if len(payload) == 1 {
		return violation(errCloseBody)
	}
	if len(payload) == 0 {
		return &verdict{Cause{Origin: OriginPeer}, ending{goodbye: []byte{}}}
	}
	code, reason := ws.ParseCloseFrameData(payload)
	if err := ws.CheckCloseFrameData(code, reason); err != nil {
		return violation(err)
	}
	return &verdict{Cause{Origin: OriginPeer, PeerCode: uint16(code)}, ending{goodbye: slices.Clone(payload[:2])}}
}

func (p *socketParser) data(h ws.Header, b []byte, head int) (int, *verdict) {
	limit := int64(p.conn.listener.cfg.MaxMessageBytes)
	if h.Length > limit-int64(len(p.msg)) {
		return 0, tooBig
	}
	if !p.fragments {
		p.op = h.OpCode
		if p.op != p.conn.dataOp() {
			if p.op == ws.OpText {
				return 0, violation(errBinaryOnly)
			}
			return 0, violation(errTextOnly)
		}
		if end := head + int(h.Length); h.Fin && len(b) >= end {
			ws.Cipher(b[head:end], h.Mask, 0)
			return end, p.deliver(b[head:end])
		}
	}
	p.inFrame, p.header, p.left = true, h, h.Length
	n, v := p.more(b[head:])
	return head + n, v
}

// more adds bytes to the message under construction.
func (p *socketParser) more(b []byte) (int, *verdict) {
	n := int(min(p.left, int64(len(b))))
	ws.Cipher(b[:n], p.header.Mask, int(p.header.Length-p.left))
	p.msg = append(p.msg, b[:n]...)
	if p.left -= int64(n); p.left > 0 {
		return n, nil
	}
	p.inFrame, p.fragments = false, !p.header.Fin
	if p.fragments {
		p.sawFrame()
		return n, nil
	}
	msg := p.msg
	p.msg = nil
	return n, p.deliver(msg)
}

func (p *socketParser) sawFrame() {
	if !p.active {
		p.active = true
		p.conn.events.Active(p.conn)
	}
}

func (p *socketParser) deliver(msg []byte) *verdict {
	if p.op == ws.OpText && !utf8.Valid(msg) {
		return violation(errUTF8)
	}
	p.sawFrame()
	p.conn.listener.stats.messagesIn.Add(1)
	p.conn.events.Message(p.conn, msg)
	return nil
}
