package transport

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/switchyard-io/switchyard/shared/fault"
)

// readBytes is the size of a read buffer. A message that does not fit gets its own memory, which
// grows as its bytes arrive.
const readBytes = 4096

var readBuffers = sync.Pool{New: func() any { return new([readBytes]byte) }}

// parser cuts a stream of bytes in messages.
type parser interface {
	// feed handles chunk, whose bytes it may change, and returns how many of them it is done with;
	// the rest is shorter than a buffer and comes again with more behind it. A non-nil verdict ends
	// the connection.
	feed(chunk []byte) (used int, v *verdict)
	// idle reports whether the stream is between two messages.
	idle() bool
}

// verdict is why a parser ends a connection.
type verdict struct {
	cause  Cause
	ending ending
}

func violation(err error) *verdict {
	return &verdict{Cause{Origin: OriginLocal, Code: fault.CloseProtocolViolation, Err: err},
		ending{goodbye: goodbye(fault.CloseProtocolViolation)}}
}

var (
	errTooBig = errors.New("message too big")
	tooBig    = &verdict{Cause{Origin: OriginLocal, Code: fault.CloseTooBig, Err: errTooBig},
		ending{goodbye: goodbye(fault.CloseTooBig)}}
)

// reader is the reading side of a connection. It belongs to one goroutine.
type reader struct {
	conn    *Conn
	parser  parser
	attempt func(fd uintptr) bool // r.try, made once
	buf     *[readBytes]byte      // nil while nothing is there
	have    int                   // bytes at the start of buf that wait for more
	n       int
	err     error
}

// serve is the life of a connection's goroutine. The bytes in early came before it.
func (c *Conn) serve(early []byte) {
	r := &reader{conn: c}
	r.attempt = r.try
	if c.stream {
		r.parser = &streamParser{conn: c}
	} else {
		r.parser = &socketParser{conn: c}
	}
	if r.handleEarly(early) {
		for c.open() && r.next() {
		}
	}
	r.release()
	c.events.Closed(c, c.causeNow())
	r.parser = nil
	r.linger()
}

func (c *Conn) causeNow() Cause {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// try reads what is there. It takes a buffer first, for a read that finds nothing is cheaper than
// asking before each one; the buffer goes back before the goroutine parks. Waiting before the
// first read would lose bytes that came earlier: the poller's readiness is reset on entry.
func (r *reader) try(fd uintptr) bool {
	if r.buf == nil {
		r.buf = readBuffers.Get().(*[readBytes]byte)
	}
	for {
		r.n, r.err = syscall.Read(int(fd), r.buf[r.have:])
		switch {
		case r.err == syscall.EINTR:
			continue
		case r.err == syscall.EAGAIN:
			if r.have == 0 {
				r.release()
			}
			return false
		}
		return true
	}
}

func (r *reader) release() {
	if r.buf != nil {
		readBuffers.Put(r.buf)
		r.buf, r.have = nil, 0
	}
}

// next reads once and handles what came. It reports whether to go on.
func (r *reader) next() bool {
	err := r.conn.raw.Read(r.attempt)
	if err == nil {
		err = r.err
	}
	if err == nil && r.n <= 0 {
		err = io.EOF
	}
	if err != nil {
		r.broken(err)
		return false
	}
	r.conn.listener.stats.bytesIn.Add(int64(r.n))
	return r.handle(r.have + r.n)
}

// handle feeds the first n bytes of the buffer and keeps what is left.
func (r *reader) handle(n int) bool {
	used, v := r.parser.feed(r.buf[:n])
	if v != nil {
		r.conn.judge(v)
		return false
	}
	r.have = copy(r.buf[:], r.buf[used:n])
	if r.have == 0 {
		r.release()
	}
	return true
}

func (r *reader) handleEarly(early []byte) bool {
	for len(early) > 0 && r.conn.open() {
		if r.buf == nil {
			r.buf = readBuffers.Get().(*[readBytes]byte)
		}
		n := copy(r.buf[r.have:], early)
		early = early[n:]
		r.conn.listener.stats.bytesIn.Add(int64(n))
		if !r.handle(r.have + n) {
			return false
		}
	}
	return true
}

// broken notes the end of the stream, unless the connection is closing already.
func (r *reader) broken(err error) {
	cause := Cause{Origin: OriginBroken, Err: err}
	if r.conn.stream && err == io.EOF && r.have == 0 && r.parser.idle() {
		cause = Cause{Origin: OriginPeer}
	}
	r.conn.end(cause, ending{drop: true})
}

func (c *Conn) judge(v *verdict) {
	if !c.end(v.cause, v.ending) {
		return
	}
	switch v.cause.Code {
	case fault.CloseProtocolViolation:
		c.listener.stats.violations.Add(1)
	case fault.CloseTooBig:
		c.listener.stats.tooBig.Add(1)
	}
}

// linger reads and forgets until the client has gone too, so that bytes which nobody reads do not
// reset the connection before the client has seen the close frame. Bounded by CloseTimeout.
func (r *reader) linger() {
	c := r.conn
	c.mu.Lock()
	// end has set closeBy; a socket that shut has closed refuses the deadline, and the read.
	_ = c.sock.SetReadDeadline(c.closeBy)
	c.mu.Unlock()
	var err error
	for err == nil {
		err = c.raw.Read(r.attempt)
		if err == nil && (r.err != nil || r.n <= 0) {
			err = io.EOF
		}
		r.release()
	}
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
