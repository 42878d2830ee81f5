package presence

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

// tableFake is a slot table that a test writes.
type tableFake struct {
	mu      sync.Mutex
	targets map[slot.Hash]slot.Target
}

func (t *tableFake) Target(h slot.Hash) (slot.Target, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	target, ok := t.targets[h]
	return target, ok
}

func (t *tableFake) set(targets ...slot.Target) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, target := range targets {
		t.targets[target.Hash] = target
	}
}

// sessionsFake is a registry that a test writes.
type sessionsFake struct {
	mu       sync.Mutex
	records  map[identity.SessionID]Record
	dirty    []identity.SessionID
	requeued int
	replaced []identity.SessionID
}

func (s *sessionsFake) InSlot(dst []Record, h slot.Hash) []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.records {
		if slot.Hash(r.Session.HashSlot()) == h {
			dst = append(dst, r)
		}
	}
	return dst
}

func (s *sessionsFake) Dirty(dst []Record, limit int) []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.dirty, func(a, b identity.SessionID) int { return int(a.HashSlot()) - int(b.HashSlot()) })
	for limit > 0 && len(s.dirty) > 0 {
		if r, ok := s.records[s.dirty[0]]; ok {
			r.OwnerSeq++
			s.records[r.Session] = r
			dst = append(dst, r)
			limit--
		}
		s.dirty = s.dirty[1:]
	}
	return dst
}

func (s *sessionsFake) Requeue(id identity.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.records[id]; ok {
		s.requeued++
		s.dirty = append(s.dirty, id)
	}
}

func (s *sessionsFake) Active(id identity.SessionID) (Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[id]
	return r, ok
}

func (s *sessionsFake) Replaced(id identity.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replaced = append(s.replaced, id)
}

func (s *sessionsFake) remove(id identity.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, id)
}

// add makes n active sessions in a hash slot.
func (s *sessionsFake) add(h slot.Hash, n int) []identity.SessionID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]identity.SessionID, n)
	for i := range ids {
		r := record(h)
		ids[i] = r.Session
		s.records[r.Session] = r
	}
	return ids
}

func record(h slot.Hash) Record {
	now := time.Now().Truncate(time.Millisecond)
	return Record{
		UID: "eu/main/alice", Session: identity.NewSessionID(uint8(h)), Listener: "ws", OwnerSeq: 1,
		Device: identity.Device{ID: "phone", Flag: "app"}, ConnectedAt: now, LastActive: now,
	}
}

// rig is a client with its surroundings.
type rig struct {
	*Client
	t        *testing.T
	nc       *nats.Conn
	table    *tableFake
	sessions *sessionsFake
}

// newRig makes a client with short pauses, on a server of its own.
func newRig(t *testing.T, adjust ...func(*Config)) *rig {
	t.Helper()
	return rigAt(t, natstest.Server(t).URL(), adjust...)
}

func rigAt(t *testing.T, url string, adjust ...func(*Config)) *rig {
	t.Helper()
	nc := natstest.Conn(t, url)
	caller, err := natsconn.NewCaller(nc, 4096)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(caller.Close)
	r := &rig{
		t: t, nc: nc, table: &tableFake{targets: map[slot.Hash]slot.Target{}},
		sessions: &sessionsFake{records: map[identity.SessionID]Record{}},
	}
	cfg := Config{
		Gateway: "gw", Boot: "boot", AttemptTimeout: 200 * time.Millisecond, BackoffMin: time.Millisecond,
		BackoffMax: 10 * time.Millisecond, TouchInterval: 5 * time.Millisecond, ReconcileInterval: 10 * time.Millisecond,
	}
	for _, f := range adjust {
		f(&cfg)
	}
	if r.Client, err = New(cfg, caller, r.table, r.sessions); err != nil {
		t.Fatal(err)
	}
	return r
}

// run runs the workers until the test ends.
func (r *rig) run() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	r.t.Cleanup(func() {
		cancel()
		<-done
	})
}

// serve answers a subject; a nil answer is silence.
func (r *rig) serve(subj string, answer func([]byte) message) *nats.Subscription {
	r.t.Helper()
	sub, err := r.nc.Subscribe(subj, func(m *nats.Msg) {
		a := answer(m.Data)
		if a == nil {
			return
		}
		data, err := a.MarshalVT()
		if err != nil {
			r.t.Error(err)
			return
		}
		if err := m.Respond(data); err != nil && !errors.Is(err, nats.ErrConnectionClosed) { // the test may be over
			r.t.Error(err)
		}
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return sub
}

type message interface{ MarshalVT() ([]byte, error) }

type readable[T any] interface {
	*T
	UnmarshalVT([]byte) error
}

func parse[T any, P readable[T]](t *testing.T, data []byte) P {
	t.Helper()
	p := P(new(T))
	if err := p.UnmarshalVT(data); err != nil {
		t.Errorf("request: %v", err)
	}
	return p
}

// raw is an answer of any bytes.
type raw []byte

func (r raw) MarshalVT() ([]byte, error) { return r, nil }

func target(h slot.Hash, node string, term uint64) slot.Target {
	return slot.Target{Hash: h, ID: slot.ID(h % 32), LeaderNode: node, LeaderBoot: node + "boot", Term: term, ConfigEpoch: 1}
}

func authority(node string, op subject.AuthorityOp) string {
	return subject.Authority(node, node+"boot", op)
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func okGroups(n int) *wirepb.SessionBatchReply {
	reply := &wirepb.SessionBatchReply{}
	for range n {
		reply.Groups = append(reply.Groups, &wirepb.SessionGroupResult{Status: wirepb.Status_STATUS_OK})
	}
	return reply
}

func okRestore(n int) *wirepb.RestoreReply {
	reply := &wirepb.RestoreReply{}
	for range n {
		reply.Groups = append(reply.Groups, &wirepb.RestoreGroupResult{Status: wirepb.Status_STATUS_OK})
	}
	return reply
}
