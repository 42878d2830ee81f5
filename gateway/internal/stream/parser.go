package stream

import (
	"errors"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
)

// Sink receives what a Parser finds.
type Sink interface {
	// Open reports whether anything more is wanted; what follows is dropped if not.
	Open() bool
	// Active says that a complete frame came, at most once for each read, before its Message.
	Active()
	// Message is a whole message, valid only during the call.
	Message(msg []byte)
	// Ping asks for a pong with the payload, which is valid only during the call.
	Ping(payload []byte)
}

// End is why a stream cannot go on.
type End struct {
	Peer   bool   // the other side's close frame: an orderly goodbye
	Code   uint16 // Peer: its close code, 0: none
	Reason string // Peer: its words
	TooBig bool   // a message beyond the limit
	Err    error  // what rule was broken; nil for Peer
}

// Errors of messages; those of WebSocket headers are gobwas/ws's.
var (
	ErrTooBig     = errors.New("message too big")
	ErrTextOnly   = errors.New("binary message with a text subprotocol")
	ErrBinaryOnly = errors.New("text message with a binary subprotocol")
	ErrUTF8       = errors.New("text message is not UTF-8")
	ErrLength     = errors.New("length that is not in its shortest form")
	ErrCloseBody  = errors.New("close frame with one byte")
)

var tooBig = &End{TooBig: true, Err: ErrTooBig}

func broken(err error) *End { return &End{Err: err} }

// Parser cuts a stream of bytes in messages.
type Parser interface {
	// feed handles chunk, whose bytes it may change, and returns how many of them it is done with;
	// the rest is shorter than a buffer and comes again with more behind it.
	feed(chunk []byte) (used int, end *End)
	// idle reports whether no message is under construction.
	idle() bool
}

// ELR2 is the parser of frames over plain TCP. Limit is the most bytes of a frame.
func ELR2(sink Sink, limit int) Parser { return &elr2{sink: sink, limit: limit} }

type elr2 struct {
	sink  Sink
	limit int
	size  int    // of the frame under construction, 0: none
	msg   []byte // grows with what arrives
}

func (p *elr2) idle() bool { return p.size == 0 }

func (p *elr2) feed(chunk []byte) (used int, end *End) {
	active := false
	for used < len(chunk) {
		if !p.sink.Open() {
			return len(chunk), nil
		}
		b := chunk[used:]
		if p.size == 0 {
			if len(b) < frame.HeaderBytes {
				return used, nil
			}
			size, err := frame.StreamSize(b)
			if err != nil {
				return used, broken(err)
			}
			if size > p.limit {
				return used, tooBig
			}
			p.size = size
		}
		n := p.size - len(p.msg)
		if len(b) < n {
			p.msg = append(p.msg, b...)
			return len(chunk), nil
		}
		msg := b[:n]
		if p.msg != nil {
			msg = append(p.msg, msg...)
		}
		used += n
		p.size, p.msg = 0, nil
		if !active {
			active = true
			p.sink.Active()
		}
		p.sink.Message(msg)
	}
	return used, nil
}
