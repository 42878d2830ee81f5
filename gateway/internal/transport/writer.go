package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// gatherBytes is how much of a queue is written at once. A shared tail that is longer is
	// written from where it is.
	gatherBytes = 32 << 10
	// socketBuffer is the kernel's send buffer of a connection, in bytes (Linux doubles it).
	socketBuffer = 128 << 10
	// lastBuffer is the kernel's send buffer of a connection that is being cut.
	lastBuffer = 1 << 20
)

// line is the first-in-first-out line of connections with something to write. Each connection is
// in it at most once (Conn.writing), so it needs no bound of its own and no memory.
type line struct {
	mu         sync.Mutex
	some       sync.Cond
	head, tail *Conn
	ended      bool
}

func (l *line) push(c *Conn) {
	l.mu.Lock()
	if l.tail == nil {
		l.head = c
	} else {
		l.tail.nextReady = c
	}
	l.tail = c
	l.mu.Unlock()
	l.some.Signal()
}

// pop waits for a connection; nil after end.
func (l *line) pop() *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.head == nil && !l.ended {
		l.some.Wait()
	}
	c := l.head
	if c != nil {
		if l.head = c.nextReady; l.head == nil {
			l.tail = nil
		}
		c.nextReady = nil
	}
	return c
}

func (l *line) end() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.some.Broadcast()
}

// writer writes for whichever connection is next, and never blocks. It belongs to one goroutine.
type writer struct {
	buf     []byte
	attempt func(fd uintptr) bool // w.try, made once
	out     []byte
	n       int
	err     error
}

func (l *Listener) runWriter() {
	w := &writer{buf: make([]byte, 0, gatherBytes)}
	w.attempt = w.try
	for c := l.line.pop(); c != nil; c = l.line.pop() {
		w.serve(c)
	}
}

// try writes as much of w.out as the socket takes now.
func (w *writer) try(fd uintptr) bool {
	for w.n < len(w.out) {
		n, err := syscall.Write(int(fd), w.out[w.n:])
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			w.err = err
			return true
		}
		w.n += n
	}
	return true
}

// serve writes one batch of a connection, and puts it back at the end of the line if there is more.
func (w *writer) serve(c *Conn) {
	b := c.take(w.buf)
	rest := batch{size: b.size, messages: b.messages}
	if err := w.write(c, b.small); err != nil {
		if !errors.Is(err, syscall.EAGAIN) {
			c.writeFailed(err)
			return
		}
		rest.small, rest.big = bytes.Clone(b.small[w.n:]), b.big
	} else if err := w.write(c, b.big); err != nil {
		if !errors.Is(err, syscall.EAGAIN) {
			c.writeFailed(err)
			return
		}
		rest.big = b.big[w.n:]
	}
	if len(rest.small)+len(rest.big) > 0 {
		c.listener.conns.Go(func() { c.writeSlowly(rest) })
		return
	}
	if c.wrote(b) {
		c.listener.line.push(c)
	}
}

func (w *writer) write(c *Conn, out []byte) error {
	if len(out) == 0 {
		return nil
	}
	w.out, w.n, w.err = out, 0, nil
	err := c.raw.Write(w.attempt)
	w.out = nil
	if err != nil {
		return err
	}
	return w.err
}

// batch is what a writer has taken from a queue: bytes in its buffer, then perhaps one long piece.
type batch struct {
	small, big []byte
	size       int // as counted in Conn.pending
	messages   int
}

// take moves the head of the queue into buf, as far as it fits.
func (c *Conn) take(buf []byte) (b batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := buf[:0]
	n := 0
	for ; n < len(c.queue) && b.big == nil; n++ {
		it := &c.queue[n]
		size := c.size(*it)
		fits := len(out)+size <= cap(buf)
		if !fits && len(out) > 0 {
			break
		}
		out = c.appendHeader(out, *it)
		body := it.data
		if it.prepared != nil {
			out = it.prepared.AppendHead(out, it.seq)
			body = it.prepared.Tail()
		}
		if fits {
			out = append(out, body...)
		} else {
			b.big = body
		}
		b.size += size
		b.messages++
		*it = item{}
	}
	if c.queue = c.queue[n:]; len(c.queue) == 0 {
		c.queue = nil
	}
	b.small = out
	return b
}

// appendHeader appends the WebSocket header of the item: the server's side is never masked and
// never fragments.
func (c *Conn) appendHeader(dst []byte, it item) []byte {
	if c.stream {
		return dst
	}
	n := len(it.data)
	if it.prepared != nil {
		n = it.prepared.Size(it.seq)
	}
	dst = append(dst, 0x80|byte(it.op))
	switch {
	case n <= 125:
		return append(dst, byte(n))
	case n <= 0xffff:
		return binary.BigEndian.AppendUint16(append(dst, 126), uint16(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, 127), uint64(n))
}

// wrote notes that a batch is on its way, and reports whether there is more. A closing connection
// that has said everything sends its FIN, and the last of reader and writer closes the socket.
func (c *Conn) wrote(b batch) (more bool) {
	c.listener.stats.bytesOut.Add(int64(b.size))
	c.listener.stats.messagesOut.Add(int64(b.messages))
	c.mu.Lock()
	c.pending = max(0, c.pending-b.size)
	if len(c.queue) > 0 {
		c.mu.Unlock()
		return true
	}
	closing, last := !c.open(), false
	if closing {
		_ = c.sock.CloseWrite()
		if last = c.readDone; c.listener.leaving.Load() {
			c.hurryLocked()
		}
	}
	c.writing = false
	c.mu.Unlock()
	if last {
		c.shut()
	}
	return false
}

// writeFailed gives up on a socket that broke, or whose time to close is over.
func (c *Conn) writeFailed(err error) {
	c.end(Cause{Origin: OriginBroken, Err: err}, ending{drop: true})
	c.shut()
}

var gatherBuffers = sync.Pool{New: func() any { return new([gatherBytes]byte) }}

// writeSlowly waits for a socket that is full, until the queue is empty or the client is cut.
func (c *Conn) writeSlowly(b batch) {
	buf := gatherBuffers.Get().(*[gatherBytes]byte)
	defer gatherBuffers.Put(buf)
	for {
		if err := c.writeAll(&b.small); err != nil {
			c.writeFailed(err)
			return
		}
		if err := c.writeAll(&b.big); err != nil {
			c.writeFailed(err)
			return
		}
		if !c.wrote(b) {
			return
		}
		b = c.take(buf[:0])
	}
}

// writeAll writes in pieces, each of which must make progress within WriteTimeout; if one does not,
// the client is cut, and gets until the close deadline for the rest of what has begun.
func (c *Conn) writeAll(out *[]byte) error {
	for len(*out) > 0 {
		c.mu.Lock()
		if c.open() {
			_ = c.sock.SetWriteDeadline(time.Now().Add(c.listener.cfg.WriteTimeout))
		}
		c.mu.Unlock()
		piece := (*out)[:min(len(*out), gatherBytes)]
		n, err := c.sock.Write(piece)
		*out = (*out)[n:]
		if err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) || !c.open() {
				return err
			}
			if c.cutSlow() {
				c.listener.stats.writeTimeouts.Add(1)
			}
			continue
		}
		if n == 0 {
			return io.ErrNoProgress
		}
	}
	c.mu.Lock()
	if c.open() {
		_ = c.sock.SetWriteDeadline(time.Time{})
	}
	c.mu.Unlock()
	return nil
}
