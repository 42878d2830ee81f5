package transport

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/gobwas/ws"

	"github.com/switchyard-io/switchyard/gateway/internal/stream"
	"github.com/switchyard-io/switchyard/shared/fault"
)

// sink is what a Conn is to its parser.
type sink Conn

func (s *sink) conn() *Conn { return (*Conn)(s) }
func (s *sink) Open() bool  { return s.conn().open() }
func (s *sink) Active()     { s.events.Active(s.conn()) }

func (s *sink) Message(msg []byte) {
	s.listener.stats.messagesIn.Add(1)
	s.events.Message(s.conn(), msg)
}

// Ping is answered through the queue: a client that pings and does not read is cut for it.
func (s *sink) Ping(payload []byte) {
	_ = s.conn().enqueue(item{data: slices.Clone(payload), op: ws.OpPong})
}

// stackLife is how long a goroutine that has handled messages goes on with the stack that it has.
const stackLife = time.Second

// serve is the life of a connection's goroutine. The bytes in early came before it.
func (c *Conn) serve(early []byte) {
	limit := c.listener.cfg.MaxMessageBytes
	var p stream.Parser
	if c.stream {
		p = stream.ELR2((*sink)(c), limit)
	} else {
		p = stream.WebSocket((*sink)(c), stream.Options{Binary: c.codec.Binary(), Limit: limit})
	}
	r := stream.NewReader(c.raw, p)
	c.listener.stats.bytesIn.Add(int64(len(early)))
	c.read(r, r.Early(early), time.Time{})
}

// read handles messages until the connection ends. Handling one grows the goroutine's stack, often
// by ten times what parking needs, and only garbage collections shrink it, slowly; so a connection
// goes on with a fresh goroutine after a read, at most once in stackLife.
func (c *Conn) read(r *stream.Reader, end *stream.End, born time.Time) {
	for end == nil && c.open() {
		var n int
		var err error
		if n, end, err = r.Next(); err != nil {
			c.broken(err, r.Between())
		}
		c.listener.stats.bytesIn.Add(int64(n))
		if now := time.Now(); end == nil && now.Sub(born) > stackLife {
			c.listener.conns.Go(func() { c.read(r, nil, now) })
			return
		}
	}
	if end != nil {
		c.judge(end)
	}
	r.Release()
	c.events.Closed(c, c.causeNow())
	c.linger(r)
}

func (c *Conn) causeNow() Cause {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// broken notes the end of the stream, unless the connection is closing already. A TCP client says
// goodbye by ending its stream between two frames.
func (c *Conn) broken(err error, between bool) {
	cause := Cause{Origin: OriginBroken, Err: err}
	if c.stream && errors.Is(err, io.EOF) && between {
		cause = Cause{Origin: OriginPeer}
	}
	c.end(cause, ending{drop: true})
}

// judge closes for what the parser found. A client's close frame is answered with its own code.
func (c *Conn) judge(e *stream.End) {
	if e.Peer {
		echo := []byte{}
		if e.Code != 0 {
			echo = binary.BigEndian.AppendUint16(echo, e.Code)
		}
		c.end(Cause{Origin: OriginPeer, PeerCode: e.Code}, ending{goodbye: echo})
		return
	}
	code, count := fault.CloseProtocolViolation, &c.listener.stats.violations
	if e.TooBig {
		code, count = fault.CloseTooBig, &c.listener.stats.tooBig
	}
	if c.end(Cause{Origin: OriginLocal, Code: code, Err: e.Err}, ending{goodbye: goodbye(code)}) {
		count.Add(1)
	}
}

// linger reads and forgets until the client has gone too, so that bytes which nobody reads do not
// reset the connection before the client has seen the close frame. Bounded by CloseTimeout.
func (c *Conn) linger(r *stream.Reader) {
	c.mu.Lock()
	// A socket that shut has closed meanwhile refuses the deadline, and the read.
	c.lingers = true
	_ = c.sock.SetReadDeadline(c.closeBy)
	c.mu.Unlock()
	err := r.Discard()
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
		c.shut()
		return
	}
	c.mu.Lock()
	c.readDone = true
	last := !c.writing
	c.mu.Unlock()
	if last {
		c.shut()
	}
}
