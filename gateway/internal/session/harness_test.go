package session_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/gateway/internal/owner"
	"github.com/switchyard-io/switchyard/gateway/internal/registry"
	"github.com/switchyard-io/switchyard/gateway/internal/session"
	"github.com/switchyard-io/switchyard/gateway/internal/transport"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
)

var alice = identity.Identity{AccountID: "a1", UserID: "alice", RegionID: "eu", RealmID: "main", Generation: 1}

// Bounds of the sessions under test.
const (
	messageWindow = 256
	maxAcks       = 1024
	maxHeld       = 64
)

// fakeConn records what a transport would write.
type fakeConn struct {
	codec frame.Codec

	mu     sync.Mutex
	sent   [][]byte
	room   int // messages until the queue is full; 0: no limit
	closed bool
	code   fault.CloseCode
}

func (c *fakeConn) Send(msg []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return transport.ErrClosed
	}
	if c.room > 0 && len(c.sent) >= c.room {
		return transport.ErrOverflow
	}
	c.sent = append(c.sent, msg)
	return nil
}

func (c *fakeConn) SendPrepared(p *frame.Prepared, seq uint32) error {
	return c.Send(append(p.AppendHead(nil, seq), p.Tail()...))
}

func (c *fakeConn) Close(code fault.CloseCode, last ...[]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.sent = append(c.sent, last...)
		c.closed, c.code = true, code
	}
}

func (c *fakeConn) Codec() frame.Codec { return c.codec }
func (c *fakeConn) Listener() string   { return transport.ListenerWebSocket }

// frames decodes and forgets what was written.
func (c *fakeConn) frames(t testing.TB) []frame.Frame {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []frame.Frame
	for _, msg := range c.sent {
		f, err := c.codec.DecodeReply(msg)
		if err != nil {
			t.Fatalf("wrote %q: %v", msg, err)
		}
		out = append(out, f)
	}
	c.sent = nil
	return out
}

func (c *fakeConn) only(t testing.TB) frame.Frame {
	t.Helper()
	fs := c.frames(t)
	if len(fs) != 1 {
		t.Fatalf("wrote %d frames: %+v", len(fs), fs)
	}
	return fs[0]
}

// errorCode is the code of the one error frame that was written.
func (c *fakeConn) errorCode(t testing.TB) fault.Code {
	t.Helper()
	f := c.only(t)
	var b fault.Body
	if err := json.Unmarshal(f.Payload, &b); f.Kind != frame.KindError || err != nil {
		t.Fatalf("no error: %+v", f)
	}
	return b.Code
}

func (c *fakeConn) closeCode() fault.CloseCode {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.code
}

// harness is a host with fakes around it. It is its Activator, Groups and Routes.
type harness struct {
	t        testing.TB
	host     *session.Host
	reg      *session.Registry
	sessions []*session.Session

	// activate replaces the default, which lets alice in.
	activate func(ctx context.Context, a *session.Attempt) error
	renew    func(ctx context.Context) (session.Reconnect, error)

	mu    sync.Mutex
	tombs []registry.Tombstone
	joins []string
}

func newHarness(t testing.TB, change func(*session.Config)) *harness {
	t.Helper()
	cfg := session.Config{
		GatewayID: "g1", AuthenticationTimeout: 10 * time.Second, HeartbeatInterval: 25 * time.Second,
		IdleTimeout: 75 * time.Second, RequestTimeout: 5 * time.Second, MaxInFlight: 2, MaxViolations: 10,
		RequestRate: 200, RequestBurst: 400,
		MessageWindow: messageWindow, MaxAcks: maxAcks, MaxHeld: maxHeld,
	}
	if change != nil {
		change(&cfg)
	}
	h := &harness{t: t}
	var err error
	if h.reg, err = registry.New[*session.Session](registry.Config{MaxSessions: 100_000}); err != nil {
		t.Fatal(err)
	}
	h.host, err = session.NewHost(cfg, session.Deps{Registry: h.reg, Activator: h, Groups: h, Routes: h})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *harness) open(c session.Conn) *session.Session {
	s := h.host.Open(c)
	h.sessions = append(h.sessions, s)
	return s
}

// closeAll stops every timer.
func (h *harness) closeAll() {
	for _, s := range h.sessions {
		s.Closed(0)
	}
	h.host.Stop()
}

func (h *harness) Activate(ctx context.Context, a *session.Attempt) error {
	if h.activate != nil {
		return h.activate(ctx, a)
	}
	return h.letIn(a)
}

func (h *harness) letIn(a *session.Attempt) error {
	e := h.committed(a)
	if !h.reg.MarkActive(e) {
		return session.ErrClosed
	}
	return a.Announce(session.Grant{Identity: alice, Groups: []string{"room-*"}}, session.Reconnect{Ticket: "r", ExpiresInSeconds: 1800})
}

// committed takes an attempt as far as a visible route.
func (h *harness) committed(a *session.Attempt) *session.Entry {
	uid := alice.UID()
	e := &session.Entry{
		ID: identity.NewSessionID(uint8(slot.OfUID(uid))), UID: uid, Device: a.Device,
		ConnectedAt: time.Now(), Handle: a.Session,
	}
	if a.Bind(e) == nil && h.reg.Begin(e) == nil {
		h.reg.Stamp(e)
		h.reg.MarkCommitting(e, 1)
	}
	return e
}

func (h *harness) GiveUp(session.Renewal) {}

func (h *harness) Renew(ctx context.Context, _ *session.Session, _ string) (session.Reconnect, error) {
	return h.renew(ctx)
}

func (h *harness) Join(_ owner.Session, group string) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.joins = append(h.joins, "+"+group)
	return true, nil
}

func (h *harness) Leave(_ owner.Session, group string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.joins = append(h.joins, "-"+group)
	return true
}

func (h *harness) LeaveAll(owner.Session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.joins = append(h.joins, "-all")
}

func (h *harness) Unregister(t registry.Tombstone) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tombs = append(h.tombs, t)
}

func (h *harness) unregistered() []registry.Tombstone {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tombs
}
