package stream

import (
	"errors"
	"io"
	"sync"
	"syscall"
)

// bufferBytes is the size of a read buffer.
const bufferBytes = 4096

var buffers = sync.Pool{New: func() any { return new([bufferBytes]byte) }}

// Reader reads one socket.
type Reader struct {
	raw     syscall.RawConn
	parser  Parser
	attempt func(fd uintptr) bool // r.try, made once
	buf     *[bufferBytes]byte    // nil while nothing is there
	have    int                   // bytes at the start of buf that wait for more
	n       int
	err     error
}

// NewReader makes a Reader that feeds parser.
func NewReader(raw syscall.RawConn, parser Parser) *Reader {
	r := &Reader{raw: raw, parser: parser}
	r.attempt = r.try
	return r
}

// try reads what is there. It takes a buffer first, for a read that finds nothing is cheaper than
// asking before each one; the buffer goes back before the goroutine parks. Parking before the
// first read would lose bytes that came earlier: the poller's readiness is reset on entry.
func (r *Reader) try(fd uintptr) bool {
	if r.buf == nil {
		r.buf = buffers.Get().(*[bufferBytes]byte)
	}
	for {
		r.n, r.err = syscall.Read(int(fd), r.buf[r.have:])
		switch {
		case errors.Is(r.err, syscall.EINTR):
			continue
		case errors.Is(r.err, syscall.EAGAIN):
			if r.have == 0 {
				r.Release()
			}
			return false
		}
		return true
	}
}

// Release gives the buffer back, with what is in it.
func (r *Reader) Release() {
	if r.buf != nil {
		buffers.Put(r.buf)
		r.buf, r.have = nil, 0
	}
}

// read waits for bytes until the socket's read deadline. The end of the stream is io.EOF.
func (r *Reader) read() error {
	if err := r.raw.Read(r.attempt); err != nil {
		return err
	}
	if r.err != nil {
		return r.err
	}
	if r.n <= 0 {
		return io.EOF
	}
	return nil
}

// Next reads once and handles what came; it returns the number of bytes. A non-nil End or error
// is the last. Messages are handled outside of the raw socket's lock, so that a handler may close
// it: closing waits for whoever is inside.
func (r *Reader) Next() (int, *End, error) {
	if err := r.read(); err != nil {
		return 0, nil, err
	}
	return r.n, r.handle(r.have + r.n), nil
}

// Early handles bytes that somebody else has read before, such as those behind an HTTP upgrade.
func (r *Reader) Early(b []byte) *End {
	for len(b) > 0 {
		if r.buf == nil {
			r.buf = buffers.Get().(*[bufferBytes]byte)
		}
		n := copy(r.buf[r.have:], b)
		b = b[n:]
		if end := r.handle(r.have + n); end != nil {
			return end
		}
	}
	return nil
}

// Discard reads and forgets until the stream ends, the deadline passes or the socket is closed.
func (r *Reader) Discard() error {
	for {
		r.have = 0
		err := r.read()
		r.Release()
		if err != nil {
			return err
		}
	}
}

// Between reports whether the stream is between two messages.
func (r *Reader) Between() bool { return r.have == 0 && r.parser.idle() }

// handle feeds the first n bytes of the buffer and keeps what is left.
func (r *Reader) handle(n int) *End {
	used, end := r.parser.feed(r.buf[:n])
	r.have = copy(r.buf[:], r.buf[used:n])
	if r.have == 0 {
		r.Release()
	}
	return end
}
