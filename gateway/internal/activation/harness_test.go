package activation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/activation"
	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/gateway/internal/owner"
	"github.com/switchyard-io/switchyard/gateway/internal/presence"
	"github.com/switchyard-io/switchyard/gateway/internal/registry"
	"github.com/switchyard-io/switchyard/gateway/internal/session"
	"github.com/switchyard-io/switchyard/gateway/internal/transport"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/ticket"
)

var alice = identity.Identity{AccountID: "alice", UserID: "alice", RegionID: "eu", RealmID: "main", Generation: 1}

// world fakes everything around an Activation, and writes down what happened, in order.
type world struct {
	reg     *registry.Registry[*session.Session]
	act     *activation.Activation
	host    *session.Host
	session *session.Session

	mu        sync.Mutex
	log       []string
	closed    bool
	last      []byte // what was written last
	confirmed []identity.SessionID
	registers []uint64 // sequences
	redeemers []identity.SessionID
	released  []identity.SessionID // as whose

	// What the fakes answer; nil is success.
	verify    func() (ticket.Claims, error)
	register  func() ([]presence.Conflict, error)
	redeem    func() error
	redeemed  func(context.Context) error // as redeem, and may wait
	release   func(context.Context) error
	evict     func(context.Context) presence.Outcome
	commit    func() ([]presence.Conflict, error)
	activated func() error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{}
	var err error
	if w.reg, err = registry.New[*session.Session](registry.Config{MaxSessions: 100}); err != nil {
		t.Fatal(err)
	}
	w.act, err = activation.New(activation.Config{
		EvictTimeout: 3 * time.Second, ReleaseTimeout: 2 * time.Second, AttemptTimeout: 5 * time.Second,
		MaxConcurrent: 4, MaxCommits: 4,
	}, activation.Deps{Registry: w.reg, Verifier: w, Ledger: w, Presence: w, Owners: w, Routes: w})
	if err != nil {
		t.Fatal(err)
	}
	w.host, err = session.NewHost(session.Config{
		GatewayID: "g1", AuthenticationTimeout: 10 * time.Second, HeartbeatInterval: 25 * time.Second,
		IdleTimeout: 75 * time.Second, RequestTimeout: 5 * time.Second, MaxInFlight: 8, MaxViolations: 10,
		RequestRate: 200, RequestBurst: 400, MessageWindow: 16, MaxAcks: 16, MaxHeld: 16,
	}, session.Deps{Registry: w.reg, Activator: w.act, Groups: w, Routes: w})
	if err != nil {
		t.Fatal(err)
	}
	w.session = w.host.Open(w)
	return w
}

// bubble runs a test in synthetic time.
func bubble(t *testing.T, f func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer func() { w.act.Stop(context.Background()) }()
		defer w.host.Stop()
		defer func() { w.session.Closed(0) }()
		f(t, w)
	})
}

// login sends an authenticate and waits until all that follows has happened.
func (w *world) login() {
	w.session.Message([]byte(`{"id":1,"route":1,"payload":{"ticket":"t"}}`))
	synctest.Wait()
}

func (w *world) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, what)
}

// happened is the log since the last call.
func (w *world) happened() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := strings.Join(w.log, " ")
	w.log = nil
	return out
}

func (w *world) errorCode(t *testing.T) fault.Code {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	f, err := frame.JSON.DecodeReply(w.last)
	var b fault.Body
	if err != nil || f.Kind != frame.KindError || json.Unmarshal(f.Payload, &b) != nil {
		t.Fatalf("no error frame: %s", w.last)
	}
	return b.Code
}

func (w *world) Verify(context.Context, string) (ticket.Claims, error) {
	if w.verify != nil {
		return w.verify()
	}
	return ticket.Claims{ID: "j1", Purpose: ticket.Login, Identity: alice}, nil
}

func (w *world) Register(_ context.Context, r presence.Record) (presence.Registration, error) {
	w.note("register")
	w.mu.Lock()
	w.registers = append(w.registers, r.OwnerSeq)
	w.mu.Unlock()
	reg := presence.Registration{Session: r.Session, Candidate: 7}
	if w.register == nil {
		return reg, nil
	}
	var err error
	reg.Conflicts, err = w.register()
	return reg, err
}

func (w *world) Commit(_ context.Context, r presence.Registration, confirmed []identity.SessionID) ([]presence.Conflict, error) {
	w.note("commit")
	w.confirmed = append([]identity.SessionID(nil), confirmed...)
	if w.commit != nil {
		return w.commit()
	}
	return nil, nil
}

func (w *world) Abort(presence.Registration) { w.note("abort") }

func (w *world) Activated(context.Context, presence.Registration) error {
	w.note("settled")
	if w.activated != nil {
		return w.activated()
	}
	return nil
}

func (w *world) Redeem(ctx context.Context, _ string, id identity.SessionID, _ identity.Device) (session.Reconnect, error) {
	w.note("redeem")
	w.mu.Lock()
	w.redeemers = append(w.redeemers, id)
	w.mu.Unlock()
	if w.redeemed != nil {
		return session.Reconnect{}, w.redeemed(ctx)
	}
	if w.redeem != nil {
		return session.Reconnect{}, w.redeem()
	}
	return session.Reconnect{Ticket: "r1", ExpiresInSeconds: 1800}, nil
}

func (w *world) Release(ctx context.Context, id string, redeemer identity.SessionID) error {
	w.note("release:" + id)
	w.mu.Lock()
	w.released = append(w.released, redeemer)
	w.mu.Unlock()
	if w.release != nil {
		return w.release(ctx)
	}
	return nil
}

func (w *world) Evict(ctx context.Context, conflicts []presence.Conflict) []presence.Outcome {
	out := make([]presence.Outcome, len(conflicts))
	for i := range conflicts {
		out[i] = presence.Closed
		if w.evict != nil {
			out[i] = w.evict(ctx)
		}
	}
	w.note(fmt.Sprintf("evicted:%d", len(conflicts)))
	return out
}

func (w *world) Unregister(t registry.Tombstone) { w.note(fmt.Sprintf("unregister:%d", t.Seq)) }

func (w *world) Join(owner.Session, string) (bool, error) { return true, nil }
func (w *world) Leave(owner.Session, string) bool         { return true }
func (w *world) LeaveAll(owner.Session)                   {}

func (w *world) Send(msg []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return transport.ErrClosed
	}
	w.last = msg
	if strings.Contains(string(msg), `"kind":"error"`) {
		w.log = append(w.log, "refused")
	} else {
		w.log = append(w.log, "answer")
	}
	return nil
}

func (w *world) SendPrepared(*frame.Prepared, uint32) error { return nil }

func (w *world) Close(fault.CloseCode, ...[]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

func (w *world) Codec() frame.Codec { return frame.JSON }
func (w *world) Listener() string   { return "websocket" }
