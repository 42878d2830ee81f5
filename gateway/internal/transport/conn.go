package transport

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gobwas/ws"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/shared/fault"
)

// state of a connection; it only grows.
type state uint32

const (
	stateOpen    state = iota
	stateClosing       // nothing more is accepted; the rest is being written
	stateClosed        // the socket is closed
)

// past is a deadline that wakes whoever waits on a socket.
var past = time.Unix(1, 0)

// Conn is one client connection.
type Conn struct {
	listener *Listener
	sock     *net.TCPConn
	raw      syscall.RawConn
	events   Events
	ip       netip.Addr
	codec    frame.Codec
	stream   bool // raw TCP: no WebSocket around the frames

	state atomic.Uint32 // written under mu

	mu       sync.Mutex
	queue    []item  // what no writer has taken yet
	first    [1]item // the queue's room while it is short: most connections never need more
	pending  int     // bytes in queue and with a writer (I12: at most SendQueueBytes and a closing message)
	writing  bool    // in the ready line, or with a writer
	lingers  bool    // the reader waits for the client to hang up, until closeBy
	readDone bool    // the reader is gone; whoever is last closes the socket
	closeBy  time.Time
	cause    Cause

	nextReady  *Conn // guarded by line.mu
	prev, next *Conn // guarded by Listener.mu
}

// item is one queued message: data, or a prepared push with its sequence number.
type item struct {
	prepared *frame.Prepared
	data     []byte
	seq      uint32
	op       ws.OpCode
}

func newConn(l *Listener, sock *net.TCPConn, ip netip.Addr, codec frame.Codec, stream bool) (*Conn, error) {
	raw, err := sock.SyscallConn()
	if err != nil {
		return nil, err
	}
	// A client that does not read must show here, in a bounded queue, and not fill megabytes of
	// the kernel's memory first. Failure costs only that.
	_ = sock.SetWriteBuffer(socketBuffer)
	return &Conn{listener: l, sock: sock, raw: raw, ip: ip, codec: codec, stream: stream}, nil
}

// Send queues one message, encoded with the connection's codec. The connection keeps msg: it must
// not be modified afterwards. ErrClosed once the connection is closing; ErrOverflow when the queue
// is full, and then the connection is being cut with 4001.
func (c *Conn) Send(msg []byte) error { return c.enqueue(item{data: msg, op: c.dataOp()}) }

// SendPrepared queues a push that many sessions share; only the sequence number is this one's.
// Errors as Send. The codec of p must be the connection's.
func (c *Conn) SendPrepared(p *frame.Prepared, seq uint32) error {
	return c.enqueue(item{prepared: p, seq: seq, op: c.dataOp()})
}

// Close ends the connection: what is queued, then the last messages, then the close frame are
// written, for at most Config.CloseTimeout. The first call decides; later ones do nothing. It does
// not wait. Once it has returned, Send accepts nothing any more (I1).
func (c *Conn) Close(code fault.CloseCode, last ...[]byte) {
	c.end(Cause{Origin: OriginLocal, Code: code}, ending{last: last, goodbye: goodbye(code)})
}

// RemoteIP is the client's address, IPv4 in its short form.
func (c *Conn) RemoteIP() netip.Addr { return c.ip }

// Codec is the form of the messages.
func (c *Conn) Codec() frame.Codec { return c.codec }

// Listener is the name of what accepted the connection: ListenerWebSocket or ListenerTCP.
func (c *Conn) Listener() string {
	if c.stream {
		return ListenerTCP
	}
	return ListenerWebSocket
}

// Queued is the number of bytes that wait to be written.
func (c *Conn) Queued() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending
}

func (c *Conn) open() bool { return state(c.state.Load()) == stateOpen }

func (c *Conn) dataOp() ws.OpCode {
	if c.codec.Binary() {
		return ws.OpBinary
	}
	return ws.OpText
}

func goodbye(code fault.CloseCode) []byte {
	return ws.NewCloseFrameBody(ws.StatusCode(code), code.String())
}

// enqueue bounds the queue (I12). One message is let in whatever its size, so that the bound does
// not decide how large a message may be.
func (c *Conn) enqueue(it item) error {
	size := c.size(it)
	c.mu.Lock()
	if !c.open() {
		c.mu.Unlock()
		return ErrClosed
	}
	if c.pending > 0 && c.pending+size > c.listener.cfg.SendQueueBytes {
		c.mu.Unlock()
		if c.cutSlow() {
			c.listener.stats.overflows.Add(1)
		}
		return ErrOverflow
	}
	c.pushLocked(it, size)
	wake := c.claimLocked()
	c.mu.Unlock()
	if wake {
		c.listener.line.push(c)
	}
	return nil
}

func (c *Conn) pushLocked(it item, size int) {
	if c.queue == nil {
		c.queue = c.first[:0]
	}
	c.queue = append(c.queue, it)
	c.pending += size
}

// claimLocked reports whether the caller must put the connection in the ready line.
func (c *Conn) claimLocked() bool {
	wake := !c.writing
	c.writing = true
	return wake
}

// size is the number of bytes that the item takes on the wire.
func (c *Conn) size(it item) int {
	n := len(it.data)
	if it.prepared != nil {
		n = it.prepared.Size(it.seq)
	}
	if c.stream {
		return n
	}
	return n + ws.HeaderSize(ws.Header{Length: int64(n)})
}

// ending is how a connection leaves.
type ending struct {
	last    [][]byte // messages before the close frame
	goodbye []byte   // payload of the close frame; nil: none
	drop    bool     // what no writer has begun is dropped first
}

// cutSlow ends a connection whose client does not read. Only the message that has begun is
// finished; the larger socket buffer has room for the end of it and for the close frame, so the
// client learns of the 4001 when it reads again, without anybody waiting for that.
func (c *Conn) cutSlow() bool {
	first := c.end(Cause{Origin: OriginLocal, Code: fault.CloseSlowConsumer},
		ending{goodbye: goodbye(fault.CloseSlowConsumer), drop: true})
	if first {
		_ = c.sock.SetWriteBuffer(lastBuffer)
	}
	return first
}

// end moves the connection from open to closing, once. It wakes the reader, which tells Events,
// and a writer, which writes what is left.
func (c *Conn) end(cause Cause, e ending) bool {
	c.mu.Lock()
	if !c.open() {
		c.mu.Unlock()
		return false
	}
	c.state.Store(uint32(stateClosing))
	c.cause = cause
	if e.drop {
		for i := range c.queue {
			c.pending -= c.size(c.queue[i])
			c.queue[i] = item{}
		}
		c.queue = nil
	}
	for _, msg := range e.last {
		it := item{data: msg, op: c.dataOp()}
		c.pushLocked(it, c.size(it))
	}
	if e.goodbye != nil && !c.stream {
		it := item{data: e.goodbye, op: ws.OpClose}
		c.pushLocked(it, c.size(it))
	}
	c.closeBy = time.Now().Add(c.listener.cfg.CloseTimeout)
	_ = c.sock.SetWriteDeadline(c.closeBy)
	_ = c.sock.SetReadDeadline(past)
	wake := c.claimLocked()
	c.mu.Unlock()
	if wake {
		c.listener.line.push(c)
	}
	return true
}

// hurry cuts the wait for a client that only has to hang up.
func (c *Conn) hurry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open() && !c.writing {
		c.hurryLocked()
	}
}

func (c *Conn) hurryLocked() {
	if by := time.Now().Add(stopLinger); by.Before(c.closeBy) {
		c.closeBy = by
	}
	if c.lingers { // before that the deadline is what wakes the reader, and must stay in the past
		_ = c.sock.SetReadDeadline(c.closeBy)
	}
}

// shut closes the socket, once. Must not be called while the raw socket is held: closing waits
// for that.
func (c *Conn) shut() {
	c.mu.Lock()
	was := state(c.state.Swap(uint32(stateClosed)))
	if was == stateOpen { // only when the process stops: the reader has not begun to close
		c.cause = Cause{Origin: OriginLocal, Code: fault.CloseDraining}
	}
	c.queue, c.pending = nil, 0
	c.first[0] = item{}
	c.mu.Unlock()
	if was == stateClosed {
		return
	}
	_ = c.sock.Close()
	c.listener.forget(c)
}
