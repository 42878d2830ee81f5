package stream

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

// Options of a WebSocket parser.
type Options struct {
	Client bool // the bytes come from a server; else from a client, which must mask
	Binary bool // messages are binary ones; else text
	Limit  int  // most bytes of a message
}

// WebSocket is the parser of a WebSocket stream after the handshake, without extensions.
func WebSocket(sink Sink, o Options) Parser {
	p := &webSocket{sink: sink, limit: int64(o.Limit), side: ws.StateServerSide, want: ws.OpText}
	if o.Client {
		p.side = ws.StateClientSide
	}
	if o.Binary {
		p.want = ws.OpBinary
	}
	return p
}

type webSocket struct {
	sink    Sink
	src     bytes.Reader
	scratch [ws.MaxHeaderSize - 2]byte
	side    ws.State
	want    ws.OpCode
	active  bool // Active was called for this chunk

	inFrame   bool // amid a data frame of the message under construction
	fragments bool // between two frames of a fragmented message
	limit     int64
	header    ws.Header // of the frame that we are in
	left      int64     // bytes that it still lacks
	msg       []byte
}

func (p *webSocket) idle() bool { return !p.inFrame && !p.fragments }

func (p *webSocket) feed(chunk []byte) (used int, end *End) {
	p.active = false
	for used < len(chunk) {
		if !p.sink.Open() {
			return len(chunk), nil
		}
		n, end := p.step(chunk[used:])
		if end != nil {
			return used, end
		}
		if n == 0 { // an incomplete header or control frame
			return used, nil
		}
		used += n
	}
	return used, nil
}

// step handles one frame, or a part of one, at the start of b.
func (p *webSocket) step(b []byte) (int, *End) {
	if p.inFrame {
		return p.more(b)
	}
	p.src.Reset(b)
	h, err := ws.ReadHeaderBuffer(&p.src, p.scratch[:])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, nil
	}
	state := p.side
	if p.fragments {
		state = state.Set(ws.StateFragmented)
	}
	if err == nil {
		err = ws.CheckHeader(h, state)
	}
	if err != nil {
		return 0, broken(err)
	}
	head := len(b) - p.src.Len()
	if head != ws.HeaderSize(h) {
		return 0, broken(ErrLength)
	}
	if h.OpCode.IsControl() {
		return p.control(h, b, head)
	}
	return p.data(h, b, head)
}

func (p *webSocket) control(h ws.Header, b []byte, head int) (int, *End) {
	end := head + int(h.Length)
	if len(b) < end {
		return 0, nil
	}
	payload := b[head:end]
	p.unmask(payload, h, 0)
	p.sawFrame()
	switch h.OpCode {
	case ws.OpPing:
		p.sink.Ping(payload)
	case ws.OpClose:
		return end, goodbye(payload)
	}
	return end, nil
}

// goodbye reads the payload of a close frame.
func goodbye(payload []byte) *End {
	switch len(payload) {
	case 0:
		return &End{Peer: true}
	case 1:
		return broken(ErrCloseBody)
	}
	code, reason := ws.ParseCloseFrameData(payload)
	if err := ws.CheckCloseFrameData(code, reason); err != nil {
		return broken(err)
	}
	return &End{Peer: true, Code: uint16(code), Reason: reason}
}

func (p *webSocket) data(h ws.Header, b []byte, head int) (int, *End) {
	if h.Length > p.limit-int64(len(p.msg)) {
		return 0, tooBig
	}
	if !p.fragments {
		if h.OpCode != p.want {
			if p.want == ws.OpText {
				return 0, broken(ErrTextOnly)
			}
			return 0, broken(ErrBinaryOnly)
		}
		if end := head + int(h.Length); h.Fin && len(b) >= end {
			p.unmask(b[head:end], h, 0)
			return end, p.deliver(b[head:end])
		}
	}
	p.inFrame, p.header, p.left = true, h, h.Length
	n, end := p.more(b[head:])
	return head + n, end
}

// more adds bytes to the message under construction.
func (p *webSocket) more(b []byte) (int, *End) {
	n := int(min(p.left, int64(len(b))))
	p.unmask(b[:n], p.header, int(p.header.Length-p.left))
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

func (p *webSocket) unmask(b []byte, h ws.Header, offset int) {
	if h.Masked {
		ws.Cipher(b, h.Mask, offset)
	}
}

func (p *webSocket) sawFrame() {
	if !p.active {
		p.active = true
		p.sink.Active()
	}
}

func (p *webSocket) deliver(msg []byte) *End {
	if p.want == ws.OpText && !utf8.Valid(msg) {
		return broken(ErrUTF8)
	}
	p.sawFrame()
	p.sink.Message(msg)
	return nil
}
