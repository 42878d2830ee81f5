package owner

import (
	"errors"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

func TestConfig(t *testing.T) {
	for name, c := range map[string]Config{
		"no gateway": {Boot: "b"}, "no boot": {Gateway: "g"},
		"negative bound": {Gateway: "g", Boot: "b", MaxItems: -1}, "negative time": {Gateway: "g", Boot: "b", MaxAckWait: -1},
	} {
		if _, err := New(c, nil, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestStopTakesNothingMore(t *testing.T) {
	r := newRig(t)
	r.join("room", r.session("eu/main/a"))
	r.Stop()
	r.Stop()
	if err := r.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, subj := range []string{
		subject.Owner("gw", "boot", subject.OwnerPush), subject.Owner("gw", "boot", subject.OwnerAction),
		subject.Group("room"), subject.GatewaysGroupSync,
	} {
		if _, err := r.backend.Request(subj, nil, patience); !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("%s: %v", subj, err)
		}
	}
}

func TestObserve(t *testing.T) {
	r := newRig(t)
	reg, err := r.Observe(noop.NewMeterProvider().Meter("test"))
	if err != nil {
		t.Fatal(err)
	}
	if err := reg.Unregister(); err != nil {
		t.Fatal(err)
	}
	if r.Dropped() != 0 {
		t.Fatal("dropped something")
	}
}

// FuzzMessages: whatever the bytes, nothing panics.
func FuzzMessages(f *testing.F) {
	id := identity.NewSessionID(22)
	to := []*wirepb.Address{{Uid: "eu/main/alice", SessionId: id[:], OwnerSeq: 1}}
	for _, m := range []message{
		&wirepb.OwnerPush{GatewayId: "g", BootId: "b", Items: []*wirepb.OwnerPushItem{{Push: &wirepb.Push{Ack: true}, To: to}}},
		&wirepb.OwnerAction{GatewayId: "g", BootId: "b", Kind: wirepb.ActionKind_ACTION_KIND_KICK, Sessions: to},
		&wirepb.GroupPush{Group: "room", Push: &wirepb.Push{ExcludeSessions: [][]byte{{1}}}},
		&wirepb.GroupSync{Id: 1},
	} {
		data, err := m.MarshalVT()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := New(Config{Gateway: "g", Boot: "b"}, nil, nobody{})
		if err != nil {
			t.Fatal(err)
		}
		o.onPush(&nats.Msg{Data: data})
		o.onAction(&nats.Msg{Data: data})
		o.onGroupPush(&nats.Msg{Subject: subject.Group("room"), Data: data}, nil)
		o.onGroupSync(&nats.Msg{Subject: subject.GatewaysGroupSync, Data: data})
	})
}

type nobody struct{}

func (nobody) Exact(identity.UID, identity.SessionID, uint64) (Session, bool) { return nil, false }

// sink takes every push of any address.
type sink struct{ fakeSession }

func (s *sink) Push(m *Message, _ Acked) Status {
	m.Prepared(s.codec)
	return Queued
}

func (s *sink) Exact(identity.UID, identity.SessionID, uint64) (Session, bool) { return s, true }

// benchmarkPush measures the handler alone: decode, look up, push, note the results.
func benchmarkPush(b *testing.B, items, addresses int) {
	s := &sink{fakeSession{id: identity.NewSessionID(1), uid: "eu/main/alice"}}
	o, err := New(Config{Gateway: "g", Boot: "b"}, nil, s)
	if err != nil {
		b.Fatal(err)
	}
	item := &wirepb.OwnerPushItem{Push: &wirepb.Push{Route: 100, Payload: make([]byte, 256), Base64: true}}
	for range addresses {
		item.To = append(item.To, s.address())
	}
	batch := &wirepb.OwnerPush{GatewayId: "g", BootId: "b", Items: slices.Repeat([]*wirepb.OwnerPushItem{item}, items)}
	data, err := batch.MarshalVT()
	if err != nil {
		b.Fatal(err)
	}
	msg := &nats.Msg{Data: data}
	b.ReportAllocs()
	for b.Loop() {
		o.onPush(msg)
	}
	b.ReportMetric(float64(b.N)*float64(items*addresses)/b.Elapsed().Seconds(), "pushes/s")
}
