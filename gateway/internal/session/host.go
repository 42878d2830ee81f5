package session

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/gateway/internal/owner"
	"github.com/switchyard-io/switchyard/gateway/internal/registry"
	"github.com/switchyard-io/switchyard/shared/fault"
)

// Registry and Entry are the owner-local registry of sessions.
type (
	Registry = registry.Registry[*Session]
	Entry    = registry.Entry[*Session]
	Record   = registry.Record[*Session]
)

// Conn is the transport of a session; *transport.Conn is one.
type Conn interface {
	// Send and SendPrepared queue without blocking; they keep what they are given.
	Send(msg []byte) error
	SendPrepared(p *frame.Prepared, seq uint32) error
	// Close ends the connection after last; nothing is accepted once it has returned.
	Close(code fault.CloseCode, last ...[]byte)
	Codec() frame.Codec
	Listener() string
}

// Activator makes sessions out of tickets.
type Activator interface {
	// Activate runs an attempt to its end: it has called Announce with success, or it has undone
	// what it did and returns why.
	Activate(ctx context.Context, a *Attempt) error
	// Renew changes an active session's reconnect ticket for a new one.
	Renew(ctx context.Context, s *Session, ticket string) (Reconnect, error)
	// GiveUp takes back, in the background, a renewal that nobody can try again: its session has
	// ended. It does not wait.
	GiveUp(r Renewal)
}

// Groups keeps the members of groups; *owner.Groups is one. Calls may come from any goroutine.
type Groups interface {
	// Join adds a session; changed is false when it was a member. Errors are *fault.Error.
	Join(s owner.Session, group string) (changed bool, err error)
	// Leave takes a session out.
	Leave(s owner.Session, group string) (changed bool)
	// LeaveAll takes an ended session out of all its groups.
	LeaveAll(s owner.Session)
}

// Routes takes back the routes of sessions that have ended.
type Routes interface {
	Unregister(t registry.Tombstone)
}

// Observer is told of sessions that were announced, and of their end. It must not block.
type Observer interface {
	Authenticated(s *Session)
	// Closed has the close code and why, from whichever side.
	Closed(s *Session, code fault.CloseCode, reason string)
}

// Deps are what a Host needs. Observer may be nil.
type Deps struct {
	Registry  *Registry
	Activator Activator
	Groups    Groups
	Routes    Routes
	Observer  Observer
}

// Host is what all sessions of a gateway share.
type Host struct {
	cfg   Config
	deps  Deps
	epoch time.Time
	seed  maphash.Seed
	stats counters

	tasks  sync.WaitGroup // authenticates and renews under way
	ctx    context.Context
	cancel context.CancelFunc
}

// NewHost checks the configuration.
func NewHost(cfg Config, deps Deps) (*Host, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Host{cfg: cfg, deps: deps, epoch: time.Now(), seed: maphash.MakeSeed(), ctx: ctx, cancel: cancel}, nil
}

// Stop cancels what is under way and waits for it. Connections are the transport's to close.
func (h *Host) Stop() {
	h.cancel()
	h.tasks.Wait()
}

// now is the monotonic time since the host was made.
func (h *Host) now() time.Duration { return time.Since(h.epoch) }

// Open begins the session of a new connection.
func (h *Host) Open(conn Conn) *Session {
	s := &Session{host: h, conn: conn, connected: h.now()}
	s.inbound.Store(int64(s.connected))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(h.cfg.AuthenticationTimeout, s.tick)
	return s
}
