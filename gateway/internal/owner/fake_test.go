package owner

import (
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/gateway/internal/registry"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 10 * time.Second

// fakeSession is a session whose client is the test.
type fakeSession struct {
	id    identity.SessionID
	uid   identity.UID
	codec frame.Codec
	seq   uint64 // registered with

	mu      sync.Mutex
	status  Status // of the next pushes; 0: as an open session
	got     []*Message
	encoded []*frame.Prepared
	acked   []Acked
	ackNow  bool          // acknowledge before Push returns
	hold    chan struct{} // End waits for it
	endings []Ending
}

func (s *fakeSession) ID() identity.SessionID { return s.id }
func (s *fakeSession) UID() identity.UID      { return s.uid }

func (s *fakeSession) Push(m *Message, acked Acked) Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.endings) > 0 {
		return Stale
	}
	if s.status != 0 {
		return s.status
	}
	s.got = append(s.got, m)
	s.encoded = append(s.encoded, m.Prepared(s.codec))
	if acked == nil || s.codec == frame.ELR2 {
		return Queued
	}
	if s.ackNow {
		acked(true)
	} else {
		s.acked = append(s.acked, acked)
	}
	return Waiting
}

func (s *fakeSession) End(e Ending) {
	if s.hold != nil {
		<-s.hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endings = append(s.endings, e)
}

func (s *fakeSession) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.endings) > 0
}

func (s *fakeSession) set(st Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = st
}

func (s *fakeSession) received() []*Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Message(nil), s.got...)
}

// acknowledge answers the i-th push that waits.
func (s *fakeSession) acknowledge(i int) { s.answer(i, true) }

// answer says of the i-th push that waits whether it was acknowledged.
func (s *fakeSession) answer(i int, ok bool) {
	s.mu.Lock()
	f := s.acked[i]
	s.mu.Unlock()
	f(ok)
}

func (s *fakeSession) address() *wirepb.Address {
	return &wirepb.Address{Uid: string(s.uid), SessionId: s.id[:], OwnerSeq: s.seq}
}

// rig is an Owner on a real registry and server, and a backend that talks to it.
type rig struct {
	*Owner
	t        *testing.T
	registry *registry.Registry[*fakeSession]
	backend  *nats.Conn
}

func newRig(t *testing.T, adjust ...func(*Config)) *rig {
	t.Helper()
	url := natstest.Server(t).URL()
	reg, err := registry.New[*fakeSession](registry.Config{MaxSessions: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Gateway: "gw", Boot: "boot"}
	for _, f := range adjust {
		f(&cfg)
	}
	o, err := New(cfg, natstest.Conn(t, url), FromRegistry(reg))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Stop)
	return &rig{Owner: o, t: t, registry: reg, backend: natstest.Conn(t, url)}
}

// session makes an active session.
func (r *rig) session(uid identity.UID) *fakeSession {
	r.t.Helper()
	s := &fakeSession{id: identity.NewSessionID(uint8(slot.OfUID(uid))), uid: uid}
	e := &registry.Entry[*fakeSession]{ID: s.id, UID: uid, ConnectedAt: time.Now(), Handle: s}
	if err := r.registry.Begin(e); err != nil {
		r.t.Fatal(err)
	}
	rec, _ := r.registry.Stamp(e)
	s.seq = rec.Seq
	if !r.registry.MarkCommitting(e, rec.Seq) || !r.registry.MarkActive(e) {
		r.t.Fatal("session is not active")
	}
	return s
}

// inbox collects replies.
type inbox struct {
	t    *testing.T
	name string
	ch   chan *nats.Msg
}

func (r *rig) inbox() *inbox {
	r.t.Helper()
	in := &inbox{r.t, nats.NewInbox(), make(chan *nats.Msg, 4096)}
	if _, err := r.backend.ChanSubscribe(in.name, in.ch); err != nil {
		r.t.Fatal(err)
	}
	return in
}

func (in *inbox) next() *nats.Msg {
	in.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case m := <-in.ch:
		return m
	case <-timer.C:
		in.t.Fatal("no reply")
		return nil
	}
}

// silent fails the test if anything arrived that was published before the backend's next flush.
func (in *inbox) silent() {
	in.t.Helper()
	select {
	case m := <-in.ch:
		in.t.Fatalf("an answer of %d bytes", len(m.Data))
	default:
	}
}

func (in *inbox) results() []*wirepb.OwnerPushResult {
	in.t.Helper()
	var reply wirepb.OwnerPushReply
	if err := reply.UnmarshalVT(in.next().Data); err != nil {
		in.t.Fatal(err)
	}
	return reply.Results
}

func (in *inbox) actions() []wirepb.ActionResult {
	in.t.Helper()
	var reply wirepb.OwnerActionReply
	if err := reply.UnmarshalVT(in.next().Data); err != nil {
		in.t.Fatal(err)
	}
	return reply.Results
}

func (in *inbox) group() *wirepb.GroupPushReply {
	in.t.Helper()
	reply := &wirepb.GroupPushReply{}
	if err := reply.UnmarshalVT(in.next().Data); err != nil {
		in.t.Fatal(err)
	}
	return reply
}

type message interface{ MarshalVT() ([]byte, error) }

func (r *rig) send(subj string, in *inbox, m message) {
	r.t.Helper()
	data, err := m.MarshalVT()
	if err != nil {
		r.t.Fatal(err)
	}
	r.sendRaw(subj, in, data)
}

func (r *rig) sendRaw(subj string, in *inbox, data []byte) {
	r.t.Helper()
	msg := &nats.Msg{Subject: subj, Data: data}
	if in != nil {
		msg.Reply = in.name
	}
	if err := r.backend.PublishMsg(msg); err != nil {
		r.t.Fatal(err)
	}
}

// push sends one item.
func (r *rig) push(in *inbox, p *wirepb.Push, to ...*wirepb.Address) {
	r.t.Helper()
	r.batch(in, &wirepb.OwnerPushItem{Item: 1, Push: p, To: to})
}

func (r *rig) batch(in *inbox, items ...*wirepb.OwnerPushItem) {
	r.t.Helper()
	r.send(subject.Owner("gw", "boot", subject.OwnerPush), in, &wirepb.OwnerPush{GatewayId: "gw", BootId: "boot", Items: items})
}

func (r *rig) act(in *inbox, a *wirepb.OwnerAction) {
	r.t.Helper()
	a.GatewayId, a.BootId = "gw", "boot"
	r.send(subject.Owner("gw", "boot", subject.OwnerAction), in, a)
}

func deliveries(results []*wirepb.OwnerPushResult) map[uint32]wirepb.Delivery {
	out := map[uint32]wirepb.Delivery{}
	for _, r := range results {
		out[r.Index] = r.Delivery
	}
	return out
}
