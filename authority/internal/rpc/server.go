package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/authority/internal/leader"
	"github.com/switchyard-io/switchyard/shared/deadline"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
)

// Config of a Server. Zero fields take the defaults.
type Config struct {
	// Workers that serve calls. Default: the number of cores.
	Workers int
	// Inbox bounds the calls that wait for one worker. Default 16384.
	Inbox int
	// OwnerTimeout is how long an action may wait for the gateways. Default 2 s.
	OwnerTimeout time.Duration
	// Log gets failures of replies, and late calls. nil: dropped.
	Log *slog.Logger
}

// Users serves the per-user subjects that backends call. It must not block; it stays silent when
// this node does not lead.
type Users interface {
	User(uid identity.UID, op subject.UserOp, m *nats.Msg)
}

// Known is the leadership of a hash slot as the slot table has it.
type Known func(slot.Hash) (slot.Target, bool)

// Server serves calls between Start and Stop.
type Server struct {
	cfg    Config
	node   lifecycle.Node
	nc     *nats.Conn
	leader *leader.Leader
	known  Known
	users  Users
	layout slot.Layout

	inboxes []chan *nats.Msg // one a worker; a hash slot's is its number modulo their count
	batches chan *nats.Msg
	quit    chan struct{}
	wg      sync.WaitGroup

	mu    sync.Mutex
	slots map[slot.ID][]*nats.Subscription
	batch *nats.Subscription

	barriers sync.Map // *nats.Msg -> chan struct{}: see Quiesce

	dropped atomic.Int64 // by the NATS client, of subscriptions that ended
	late    *deadline.Guard
	invalid atomic.Int64
}

// New makes a server; nothing is subscribed to before Start and Open.
func New(cfg Config, node lifecycle.Node, nc *nats.Conn, l *leader.Leader, known Known) *Server {
	if cfg.Workers <= 0 {
		cfg.Workers = runtime.GOMAXPROCS(0)
	}
	if cfg.Inbox <= 0 {
		cfg.Inbox = 16384
	}
	if cfg.OwnerTimeout <= 0 {
		cfg.OwnerTimeout = 2 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		cfg: cfg, node: node, nc: nc, leader: l, known: known,
		late:    deadline.NewGuard(cfg.Log),
		batches: make(chan *nats.Msg, cfg.Inbox), quit: make(chan struct{}), slots: map[slot.ID][]*nats.Subscription{},
	}
	for range cfg.Workers {
		s.inboxes = append(s.inboxes, make(chan *nats.Msg, cfg.Inbox))
	}
	return s
}

// Start serves the node's batch subject; users serves the per-user subjects.
func (s *Server) Start(layout slot.Layout, users Users) error {
	s.layout, s.users = layout, users
	sub, err := s.nc.ChanSubscribe(subject.AuthorityAll(s.node.ID, s.node.Boot), s.batches)
	if err != nil {
		return fmt.Errorf("subscribing to batches: %w", err)
	}
	s.mu.Lock()
	s.batch = sub
	s.mu.Unlock()
	for _, in := range s.inboxes {
		s.wg.Go(func() { s.work(in, s.slotCall) })
		s.wg.Go(func() { s.work(s.batches, s.batchCall) })
	}
	return nil
}

// work runs one worker until Stop.
func (s *Server) work(in <-chan *nats.Msg, serve func(*nats.Msg)) {
	for {
		select {
		case m := <-in:
			if done, ok := s.barriers.LoadAndDelete(m); ok {
				close(done.(chan struct{}))
				continue
			}
			serve(m)
		case <-s.quit:
			return
		}
	}
}

// Open subscribes to the hash slots of a logical slot. When it returns, the server knows.
func (s *Server) Open(id slot.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots[id] != nil {
		return nil
	}
	var subs []*nats.Subscription
	var err error
	for _, h := range s.layout.Hashes(id) {
		var sub *nats.Subscription
		if sub, err = s.nc.ChanSubscribe(subject.SlotAll(h), s.inboxes[int(h)%len(s.inboxes)]); err != nil {
			break
		}
		subs = append(subs, sub)
	}
	if err == nil {
		err = s.nc.FlushTimeout(flushTimeout)
	}
	if err != nil {
		for _, sub := range subs {
			_ = sub.Unsubscribe()
		}
		return fmt.Errorf("subscribing to slot %d: %w", id, err)
	}
	s.slots[id] = subs
	return nil
}

// flushTimeout bounds the wait for the server to know a subscription.
const flushTimeout = time.Second

// Close ends the subscriptions of a logical slot. What the server has sent already is still heard.
func (s *Server) Close(id slot.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sub := range s.slots[id] {
		s.endLocked(sub)
	}
	delete(s.slots, id)
}

// Quiesce ends the subscriptions of a logical slot and returns when every call has been served that
// came before, or with ctx's error.
func (s *Server) Quiesce(ctx context.Context, id slot.ID) error {
	s.Close(id)
	if err := s.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("quiescing slot %d: %w", id, err)
	}
	var passed []chan struct{}
	seen := map[chan *nats.Msg]bool{}
	for _, h := range s.layout.Hashes(id) {
		in := s.inboxes[int(h)%len(s.inboxes)]
		if seen[in] {
			continue
		}
		seen[in] = true
		m, done := &nats.Msg{}, make(chan struct{})
		s.barriers.Store(m, done)
		select {
		case in <- m:
			passed = append(passed, done)
		case <-ctx.Done():
			s.barriers.Delete(m)
			return ctx.Err()
		}
	}
	for _, done := range passed {
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (s *Server) endLocked(sub *nats.Subscription) {
	if n, err := sub.Dropped(); err == nil {
		s.dropped.Add(int64(n))
	}
	if err := sub.Drain(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		_ = sub.Unsubscribe()
	}
}

// Stop ends all subscriptions and waits for the workers.
func (s *Server) Stop() {
	s.mu.Lock()
	for id, subs := range s.slots {
		for _, sub := range subs {
			s.endLocked(sub)
		}
		delete(s.slots, id)
	}
	if s.batch != nil {
		s.endLocked(s.batch)
		s.batch = nil
	}
	s.mu.Unlock()
	close(s.quit)
	s.wg.Wait()
}

// Counts is what was not served since the start: dropped for a full inbox, too late, or malformed.
type Counts struct{ Dropped, Late, Invalid int64 }

// Counts reads the counters.
func (s *Server) Counts() Counts {
	c := Counts{Dropped: s.dropped.Load(), Late: s.late.Count(), Invalid: s.invalid.Load()}
	s.mu.Lock()
	defer s.mu.Unlock()
	add := func(sub *nats.Subscription) {
		if n, err := sub.Dropped(); err == nil {
			c.Dropped += int64(n)
		}
	}
	for _, subs := range s.slots {
		for _, sub := range subs {
			add(sub)
		}
	}
	if s.batch != nil {
		add(s.batch)
	}
	return c
}

// slotCall serves a call on a hash slot's subject.
func (s *Server) slotCall(m *nats.Msg) {
	if h, op, ok := subject.ParseSlot(m.Subject); ok {
		switch op {
		case subject.SlotRegister:
			s.register(h, m)
		case subject.SlotCommit:
			s.commit(h, m)
		case subject.SlotAbort:
			s.abort(h, m)
		default:
			s.invalid.Add(1)
		}
		return
	}
	if _, uid, op, ok := subject.ParseSlotUser(m.Subject); ok {
		s.users.User(uid, op, m)
		return
	}
	s.invalid.Add(1)
	if strings.Contains(m.Subject, ".user.") { // a backend's, with a name that is no user's
		_ = fault.New(fault.InvalidRequest, "the subject names no user").Respond(m)
	}
}

// batchCall serves a call on the node's own subject.
func (s *Server) batchCall(m *nats.Msg) {
	op := subject.AuthorityOp(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
	switch op {
	case subject.AuthorityTouch:
		s.touch(m)
	case subject.AuthorityUnregister:
		s.unregister(m)
	case subject.AuthorityRestore:
		s.restore(m)
	case subject.AuthorityEndpoints:
		s.endpoints(m)
	case subject.AuthorityPush:
		s.push(m)
	case subject.AuthorityAct:
		s.act(m)
	default:
		s.invalid.Add(1)
	}
}

// tooLate reports and counts a call whose caller has given up.
func (s *Server) tooLate(m *nats.Msg, deadlineMS int64) bool {
	return s.late.Late(context.Background(), m.Subject, deadlineMS, time.Now())
}

// message is a generated call.
type message interface {
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}

// read decodes a call; what is malformed is counted and gets no answer: no version of ours sends it.
func (s *Server) read(m *nats.Msg, into message) bool {
	if err := into.UnmarshalVT(m.Data); err != nil {
		s.invalid.Add(1)
		return false
	}
	return true
}

func (s *Server) reply(m *nats.Msg, r message) {
	if m.Reply == "" {
		return
	}
	data, err := r.MarshalVT()
	if err == nil {
		err = s.nc.Publish(m.Reply, data)
	}
	if err != nil {
		s.cfg.Log.Warn("reply not sent", "subject", m.Subject, "error", err)
	}
}
