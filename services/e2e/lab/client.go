package lab

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/gobwas/ws"
)

// The subprotocols.
const (
	JSON = "switchyard.v1.json"
	ELR2 = "elura.v2"
)

// Message is one frame of either subprotocol.
type Message struct {
	Kind       string          `json:"kind"`
	Route      uint32          `json:"route"`
	ID         uint64          `json:"id"`
	Seq        uint64          `json:"seq"`
	Payload    json.RawMessage `json:"payload"`
	PayloadB64 *string         `json:"payload_b64"`
	Ack        bool            `json:"ack"`

	At time.Time `json:"-"` // when it arrived
}

// Code is the error code of an error message.
func (m Message) Code() string {
	var body struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(m.Payload, &body) // no code is what a broken body has
	return body.Code
}

// Closed is how a connection ended: a close frame's code and reason, or code 0 and the error.
type Closed struct {
	Code   int
	Reason string
	Err    error
}

// Client is a client of a gateway, with a reader in the background. Send and the waiting methods
// may be used from different goroutines.
type Client struct {
	Session string // session id, after Login

	t    testing.TB
	sub  string
	conn net.Conn
	r    *bufio.Reader

	writeMu sync.Mutex
	nextID  uint64

	mu      sync.Mutex
	changed chan struct{} // closed and replaced with every arrival
	inbox   []Message
	closed  *Closed
}

const (
	maxInbox    = 1 << 20 // messages; a test that gets more is broken
	dialTimeout = 10 * time.Second
	waitLimit   = 15 * time.Second
)

// DialOptions change how a client connects.
type DialOptions struct {
	Subprotocol string      // "" offers none
	Header      http.Header // of the upgrade request
	NoReader    bool        // nothing is ever read: a stuck client
	ReadBuffer  int         // SO_RCVBUF in bytes, 0: the system's
}

// RefusedError is an upgrade that was answered with an HTTP status.
type RefusedError struct{ Status int }

func (e RefusedError) Error() string { return fmt.Sprintf("upgrade refused: %d", e.Status) }

// TryDial connects; the connection is closed with the test.
func TryDial(t testing.TB, url string, o DialOptions) (*Client, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	d := ws.Dialer{Header: ws.HandshakeHeaderHTTP(o.Header)}
	if o.Subprotocol != "" {
		d.Protocols = []string{o.Subprotocol}
	}
	if o.ReadBuffer > 0 {
		d.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err == nil {
				err = conn.(*net.TCPConn).SetReadBuffer(o.ReadBuffer)
			}
			return conn, err
		}
	}
	conn, br, hs, err := d.Dial(ctx, url)
	if err != nil {
		var status ws.StatusError
		if errors.As(err, &status) {
			return nil, RefusedError{Status: int(status)}
		}
		return nil, err
	}
	if o.Subprotocol != "" && hs.Protocol != o.Subprotocol {
		_ = conn.Close() // the error is about the protocol
		return nil, fmt.Errorf("subprotocol %q chosen for %q", hs.Protocol, o.Subprotocol)
	}
	if br == nil {
		br = bufio.NewReader(conn)
	}
	c := &Client{t: t, sub: o.Subprotocol, conn: conn, r: br, changed: make(chan struct{})}
	var wg sync.WaitGroup
	t.Cleanup(func() {
		_ = conn.Close() // the peer may have closed it
		wg.Wait()
	})
	if !o.NoReader {
		wg.Go(c.read)
	}
	return c, nil
}

// Dial is TryDial that must succeed.
func Dial(t testing.TB, url, subprotocol string) *Client {
	t.Helper()
	c, err := TryDial(t, url, DialOptions{Subprotocol: subprotocol})
	if err != nil {
		t.Fatalf("dial %s: %v", url, err)
	}
	return c
}

// Conn is the raw connection, for what no well-behaved client does.
func (c *Client) Conn() net.Conn { return c.conn }

// Drop closes the socket without a close frame, as a lost network does.
func (c *Client) Drop() { _ = c.conn.Close() }

// Close sends a close frame and leaves the rest to the gateway.
func (c *Client) Close() {
	c.WriteFrame(ws.NewCloseFrame(ws.NewCloseFrameBody(ws.StatusNormalClosure, "")))
}

// WriteFrame masks and sends one WebSocket frame.
func (c *Client) WriteFrame(f ws.Frame) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(waitLimit))
	_ = ws.WriteFrame(c.conn, ws.MaskFrame(f)) // a closed peer shows in the reader
}

// Send sends a request with a payload that is marshalled as JSON (nil: none), and returns its id.
func (c *Client) Send(route uint32, seq uint64, payload any) uint64 {
	c.t.Helper()
	c.writeMu.Lock()
	c.nextID++
	id := c.nextID
	c.writeMu.Unlock()
	var body []byte
	if payload != nil {
		var err error
		if body, err = json.Marshal(payload); err != nil {
			c.t.Fatal(err)
		}
	}
	if c.sub == ELR2 {
		c.WriteFrame(ws.NewBinaryFrame(ELR2Frame(1, route, id, uint32(seq), body)))
		return id
	}
	frame := map[string]any{"kind": "request", "route": route, "id": id}
	if seq > 0 {
		frame["seq"] = seq
	}
	if body != nil {
		frame["payload"] = json.RawMessage(body)
	}
	data, err := json.Marshal(frame)
	if err != nil {
		c.t.Fatal(err)
	}
	c.WriteFrame(ws.NewTextFrame(data))
	return id
}

// Request sends a request and returns the response or error with its id.
func (c *Client) Request(route uint32, payload any) Message {
	c.t.Helper()
	id := c.Send(route, 0, payload)
	return c.Wait("answer", func(m Message) bool { return m.ID == id && (m.Kind == "response" || m.Kind == "error") })
}

// ELR2Frame lays out one frame: the 28 byte big-endian header of PROTOCOL.md section 2, then the payload.
func ELR2Frame(kind uint8, route uint32, id uint64, seq uint32, payload []byte) []byte {
	b := make([]byte, 28, 28+len(payload))
	binary.BigEndian.PutUint32(b[0:], 0x454C5232)
	binary.BigEndian.PutUint16(b[4:], 2)
	b[6] = kind
	binary.BigEndian.PutUint32(b[8:], route)
	binary.BigEndian.PutUint64(b[12:], id)
	binary.BigEndian.PutUint32(b[20:], seq)
	binary.BigEndian.PutUint32(b[24:], uint32(len(payload)))
	return append(b, payload...)
}

func parseELR2(b []byte) (Message, error) {
	kinds := []string{1: "request", 2: "response", 3: "push", 4: "error"}
	if len(b) < 28 || binary.BigEndian.Uint32(b) != 0x454C5232 || binary.BigEndian.Uint16(b[4:]) != 2 ||
		b[6] == 0 || int(b[6]) >= len(kinds) || b[7] != 0 || int(binary.BigEndian.Uint32(b[24:])) != len(b)-28 {
		return Message{}, fmt.Errorf("not an ELR2 frame: % x", b[:min(len(b), 40)])
	}
	return Message{
		Kind:    kinds[b[6]],
		Route:   binary.BigEndian.Uint32(b[8:]),
		ID:      binary.BigEndian.Uint64(b[12:]),
		Seq:     uint64(binary.BigEndian.Uint32(b[20:])),
		Payload: append(json.RawMessage(nil), b[28:]...),
	}, nil
}

func (c *Client) read() {
	for {
		f, err := c.readFrame()
		if err != nil {
			c.end(Closed{Err: err})
			return
		}
		switch f.Header.OpCode {
		case ws.OpClose:
			code, reason := ws.ParseCloseFrameData(f.Payload)
			c.WriteFrame(ws.NewCloseFrame(ws.NewCloseFrameBody(code, "")))
			c.end(Closed{Code: int(code), Reason: reason})
			return
		case ws.OpPing:
			c.WriteFrame(ws.NewPongFrame(f.Payload))
		case ws.OpText, ws.OpBinary:
			c.arrive(f)
		}
	}
}

// maxFrame bounds a frame of the gateway: its largest message is 1 MiB of payload and an envelope.
const maxFrame = 8 << 20

func (c *Client) readFrame() (ws.Frame, error) {
	h, err := ws.ReadHeader(c.r)
	if err != nil {
		return ws.Frame{}, err
	}
	if h.Length > maxFrame || h.Masked {
		return ws.Frame{}, fmt.Errorf("the gateway sent a frame of %d bytes, masked: %v", h.Length, h.Masked)
	}
	f := ws.Frame{Header: h, Payload: make([]byte, h.Length)}
	_, err = io.ReadFull(c.r, f.Payload)
	return f, err
}

func (c *Client) arrive(f ws.Frame) {
	var m Message
	var err error
	wantOp := ws.OpText
	if c.sub == ELR2 {
		wantOp = ws.OpBinary
		m, err = parseELR2(f.Payload)
	} else {
		err = json.Unmarshal(f.Payload, &m)
	}
	if err != nil || f.Header.OpCode != wantOp || !f.Header.Fin {
		c.t.Errorf("the gateway sent a bad frame (op %x): %q: %v", f.Header.OpCode, f.Payload, err)
		return
	}
	m.At = time.Now()
	if m.Kind == "request" && m.Route == 2 {
		c.answerHeartbeat(m)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.inbox) < maxInbox {
		c.inbox = append(c.inbox, m)
	}
	c.wake()
}

func (c *Client) answerHeartbeat(m Message) {
	if c.sub == ELR2 {
		c.WriteFrame(ws.NewBinaryFrame(ELR2Frame(2, 2, m.ID, uint32(m.Seq), nil)))
		return
	}
	c.WriteFrame(ws.NewTextFrame(fmt.Appendf(nil, `{"kind":"response","route":2,"id":%d}`, m.ID)))
}

func (c *Client) end(how Closed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = &how
	c.wake()
}

func (c *Client) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Wait returns, and takes out, the first message that matches, whenever it arrived; it fails the
// test when none comes or the connection ends first.
func (c *Client) Wait(what string, match func(Message) bool) Message {
	c.t.Helper()
	m, closed, ok := c.TryWait(waitLimit, match)
	if !ok {
		c.t.Fatalf("no %s came (connection: %+v)", what, closed)
	}
	return m
}

// TryWait is Wait with a limit and without failing the test.
func (c *Client) TryWait(limit time.Duration, match func(Message) bool) (Message, *Closed, bool) {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		c.mu.Lock()
		for i, m := range c.inbox {
			if match(m) {
				c.inbox = append(c.inbox[:i], c.inbox[i+1:]...)
				c.mu.Unlock()
				return m, nil, true
			}
		}
		closed, changed := c.closed, c.changed
		c.mu.Unlock()
		if closed != nil {
			return Message{}, closed, false
		}
		select {
		case <-changed:
		case <-deadline.C:
			return Message{}, nil, false
		}
	}
}

// Push waits for the next push on an application route.
func (c *Client) Push() Message {
	c.t.Helper()
	return c.Wait("push", func(m Message) bool { return m.Kind == "push" && m.Route >= 100 })
}

// Pushes returns the pushes on application routes that have arrived and were not taken out.
func (c *Client) Pushes() []Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Message
	for _, m := range c.inbox {
		if m.Kind == "push" && m.Route >= 100 {
			out = append(out, m)
		}
	}
	return out
}

// WaitClosed waits until the connection has ended and tells how.
func (c *Client) WaitClosed() Closed {
	c.t.Helper()
	var how Closed
	Eventually(c.t, waitLimit, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closed == nil {
			return errors.New("the connection is open")
		}
		how = *c.closed
		return nil
	})
	return how
}

// Alive fails the test unless the session still answers.
func (c *Client) Alive() {
	c.t.Helper()
	if m := c.Request(2, nil); m.Kind != "response" {
		c.t.Fatalf("heartbeat answered with %s %s", m.Kind, m.Payload)
	}
}

// Authenticated is the response to an authenticate request.
type Authenticated struct {
	SessionID string `json:"session_id"`
	Identity  struct {
		AccountID  any   `json:"account_id"`
		UserID     any   `json:"user_id"`
		RegionID   any   `json:"region_id"`
		RealmID    any   `json:"realm_id"`
		Generation int64 `json:"generation"`
	} `json:"identity"`
	Reconnect struct {
		Ticket           string `json:"ticket"`
		ExpiresInSeconds int64  `json:"expires_in_seconds"`
	} `json:"reconnect"`
	HeartbeatIntervalMS int64  `json:"heartbeat_interval_ms"`
	IdleTimeoutMS       int64  `json:"idle_timeout_ms"`
	GatewayID           string `json:"gateway_id"`
	Resumed             *bool  `json:"resumed"`
	Replayed            *int   `json:"replayed"`
}

// Login authenticates with a ticket and must succeed. Fields of extra are added to the request.
func (c *Client) Login(ticket string, extra map[string]any) Authenticated {
	c.t.Helper()
	a, m := c.TryLogin(ticket, extra)
	if m.Kind != "response" {
		c.t.Fatalf("authenticate: %s %s", m.Kind, m.Payload)
	}
	return a
}

// TryLogin authenticates and returns the answer as it is.
func (c *Client) TryLogin(ticket string, extra map[string]any) (Authenticated, Message) {
	c.t.Helper()
	in := map[string]any{"ticket": ticket}
	for k, v := range extra {
		in[k] = v
	}
	m := c.Request(1, in)
	var a Authenticated
	if m.Kind == "response" {
		if err := json.Unmarshal(m.Payload, &a); err != nil {
			c.t.Fatalf("authenticate response %s: %v", m.Payload, err)
		}
		c.Session = a.SessionID
	}
	return a, m
}

// Bytes returns what the sender gave as payload_b64.
func (m Message) Bytes() ([]byte, error) {
	if m.PayloadB64 == nil {
		return nil, errors.New("no payload_b64")
	}
	return base64.StdEncoding.DecodeString(*m.PayloadB64)
}
