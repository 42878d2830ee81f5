package client

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/gateway/internal/stream"
	"github.com/switchyard-io/switchyard/shared/fault"
)

// Subprotocol is the form of the frames.
type Subprotocol string

// The subprotocols.
const (
	JSON Subprotocol = frame.SubprotocolJSON // the default
	ELR2 Subprotocol = frame.SubprotocolELR2
)

// Bounds of a client.
const (
	maxPending        = 4096             // requests without an answer; more are refused with QUEUE_FULL
	defaultMaxMessage = 4 << 20          // bytes
	writeTimeout      = 10 * time.Second // for one message; a socket that takes longer is closed
	stackLife         = time.Second
	goodbyeTimeout    = 2 * time.Second // from Close to the end, if the gateway does not answer
)

// Options of Dial. The zero value will do.
type Options struct {
	Subprotocol Subprotocol // default JSON; tcp:// is always ELR2
	Origin      string      // Origin header; empty: none
	LocalAddr   net.IP      // address to dial from; nil: the system's choice
	NoAck       bool        // do not acknowledge pushes that ask for it; see Ack
	NoHeartbeat bool        // neither send heartbeats nor answer those of the gateway
	MaxMessage  int         // largest message accepted, in bytes; default 4 MiB

	OnPush    func(*Client, Push)    // a push with a route other than 4
	OnControl func(*Client, Control) // session control, before the close
	OnClose   func(*Client, error)   // once, the last call; a *CloseError, ErrClosed or a network error
}

// Push is one push. Its payload is valid only during the callback.
type Push struct {
	Route   uint32
	Seq     uint32
	Payload []byte
	Base64  bool // the sender gave bytes, not JSON
	Ack     bool // the sender waits for an acknowledgement
}

// Reply is the answer to a request.
type Reply struct {
	Seq     uint32
	Payload []byte
	Base64  bool
}

// Client is one connection to a gateway.
type Client struct {
	opts   Options
	codec  frame.Codec
	stream bool // raw TCP
	sock   *net.TCPConn
	raw    syscall.RawConn
	last   atomic.Uint32
	closed atomic.Bool

	sending sync.Mutex // one message after the other; never held together with mu

	mu      sync.Mutex
	nextID  uint64
	pending map[uint64]func(Reply, error)
	ended   error // not nil: pending takes no more
	beats   *time.Timer
}

// Request sends a request and waits for its answer: a *fault.Error when it is an error frame.
// A payload that is not JSON travels as bytes.
func (c *Client) Request(ctx context.Context, route uint32, payload []byte) (Reply, error) {
	type outcome struct {
		reply Reply
		err   error
	}
	answer := make(chan outcome, 1)
	id, err := c.start(route, payload, func(r Reply, err error) {
		r.Payload = append([]byte(nil), r.Payload...)
		answer <- outcome{r, err}
	})
	if err != nil {
		return Reply{}, err
	}
	select {
	case o := <-answer:
		return o.reply, o.err
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
		return Reply{}, ctx.Err()
	}
}

// Go sends a request; done is called once, from the reading goroutine, with its answer, or with
// the error that ended the connection. The reply is valid only during the call. When Go returns
// an error, done is not called.
func (c *Client) Go(route uint32, payload []byte, done func(Reply, error)) error {
	_, err := c.start(route, payload, done)
	return err
}

func (c *Client) start(route uint32, payload []byte, done func(Reply, error)) (uint64, error) {
	c.mu.Lock()
	if c.ended != nil {
		defer c.mu.Unlock()
		return 0, c.ended
	}
	if len(c.pending) >= maxPending {
		defer c.mu.Unlock()
		return 0, fault.ErrQueueFull
	}
	if c.pending == nil {
		c.pending = make(map[uint64]func(Reply, error), 1)
	}
	c.nextID++
	id := c.nextID
	c.pending[id] = done
	c.mu.Unlock()
	f := frame.Frame{Kind: frame.KindRequest, Route: route, ID: id, Payload: payload}
	f.Base64 = c.codec == frame.JSON && len(payload) > 0 && !frame.IsJSON(payload)
	if err := c.send(f); err != nil {
		c.mu.Lock()
		_, waiting := c.pending[id]
		delete(c.pending, id)
		c.mu.Unlock()
		if waiting { // else done has been told already
			return 0, err
		}
	}
	return id, nil
}

// notify sends a request whose answer is of no interest.
func (c *Client) notify(route uint32, payload []byte) error {
	c.mu.Lock()
	c.nextID++
	id := c.nextID
	c.mu.Unlock()
	return c.send(frame.Frame{Kind: frame.KindRequest, Route: route, ID: id, Payload: payload})
}

// LastSeq is the highest push sequence seen.
func (c *Client) LastSeq() uint32 { return c.last.Load() }

// Close says goodbye and closes the socket, at the latest when the gateway has not answered for
// two seconds. It does not wait; OnClose tells. Idempotent.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	err := c.sendGoodbye(1000)
	_ = c.sock.SetReadDeadline(time.Now().Add(goodbyeTimeout))
	return err
}

// Abort breaks the connection without a goodbye, as a lost network would.
func (c *Client) Abort() {
	c.closed.Store(true)
	_ = c.sock.SetLinger(0)
	_ = c.sock.Close()
}

// run is the client's one goroutine.
func (c *Client) run(early []byte) {
	var p stream.Parser
	limit := c.opts.MaxMessage
	if c.stream {
		p = stream.ELR2((*sink)(c), limit)
	} else {
		p = stream.WebSocket((*sink)(c), stream.Options{Client: true, Binary: c.codec.Binary(), Limit: limit})
	}
	r := stream.NewReader(c.raw, p)
	c.read(r, r.Early(early), time.Time{})
}

// read handles messages until the end. Handling one grows the goroutine's stack, so the client
// goes on with a fresh one after a read, at most once in stackLife.
func (c *Client) read(r *stream.Reader, end *stream.End, born time.Time) {
	var err error
	for end == nil && err == nil {
		_, end, err = r.Next()
		if now := time.Now(); end == nil && err == nil && now.Sub(born) > stackLife {
			go c.read(r, nil, now)
			return
		}
	}
	r.Release()
	c.finish(end, err)
}

// finish tells everybody why it is over, and closes the socket.
func (c *Client) finish(end *stream.End, err error) {
	switch {
	case c.closed.Swap(true):
		err = ErrClosed
	case end != nil && end.Peer:
		err = &CloseError{Code: fault.CloseCode(end.Code), Reason: end.Reason}
		_ = c.sendGoodbye(end.Code)
	case end != nil:
		err = errors.Join(ErrProtocol, end.Err)
		_ = c.sendGoodbye(1002)
	}
	_ = c.sock.Close()
	c.mu.Lock()
	pending := c.pending
	c.pending, c.ended = nil, err
	if c.beats != nil {
		c.beats.Stop()
	}
	c.mu.Unlock()
	for _, done := range pending {
		done(Reply{}, err)
	}
	if c.opts.OnClose != nil {
		c.opts.OnClose(c, err)
	}
}
