package owner

import (
	"encoding/binary"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

func TestI2_OnlyTheExactSessionIsWritten(t *testing.T) {
	r := newRig(t)
	alice, other := r.session("eu/main/alice"), r.session("eu/main/alice")
	gone := identity.NewSessionID(22)
	wrong := func(change func(*wirepb.Address)) *wirepb.Address {
		a := alice.address()
		change(a)
		return a
	}
	in := r.inbox()
	r.push(in, &wirepb.Push{Route: 100, Payload: []byte("1")},
		wrong(func(a *wirepb.Address) { a.Uid = "eu/main/bob" }),
		wrong(func(a *wirepb.Address) { a.SessionId = gone[:] }),
		wrong(func(a *wirepb.Address) { a.SessionId = a.SessionId[:15] }),
		wrong(func(a *wirepb.Address) { a.SessionId = nil }),
		wrong(func(a *wirepb.Address) { a.OwnerSeq-- }),
		wrong(func(a *wirepb.Address) { a.OwnerSeq += 100 }),
		&wirepb.Address{},
		alice.address(),
	)
	got := deliveries(in.results())
	for i := range uint32(7) {
		if got[i] != wirepb.Delivery_DELIVERY_STALE {
			t.Errorf("address %d: %v", i, got[i])
		}
	}
	if got[7] != wirepb.Delivery_DELIVERY_QUEUED || len(alice.received()) != 1 || len(other.received()) != 0 {
		t.Errorf("exact: %v; alice got %d, the other %d", got[7], len(alice.received()), len(other.received()))
	}
}

func TestStatusesOfAPush(t *testing.T) {
	for status, want := range map[Status]wirepb.Delivery{
		0:        wirepb.Delivery_DELIVERY_QUEUED,
		Parked:   wirepb.Delivery_DELIVERY_PARKED,
		Overflow: wirepb.Delivery_DELIVERY_OVERFLOW,
		Stale:    wirepb.Delivery_DELIVERY_STALE,
	} {
		r := newRig(t)
		s := r.session("eu/main/alice")
		s.set(status)
		in := r.inbox()
		for _, ack := range []bool{false, true} {
			if ack && status == 0 {
				continue // waits
			}
			r.push(in, &wirepb.Push{Ack: ack}, s.address())
			if got := deliveries(in.results())[0]; got != want {
				t.Errorf("status %d, ack %v: %v, want %v", status, ack, got, want)
			}
		}
		if n := r.acks.open.Load(); n != 0 {
			t.Errorf("%d waits leaked", n)
		}
	}
}

func TestPushCarriesAllThatItIs(t *testing.T) {
	r := newRig(t)
	s := r.session("eu/main/alice")
	in := r.inbox()
	expires, until := time.Now().Add(time.Hour), time.Now().Add(30*time.Second)
	r.push(in, &wirepb.Push{
		Route: 200, Payload: []byte("p"), Base64: true, Ack: true, AckDeadlineMs: until.UnixMilli(),
		MessageId: "m", ExpiresMs: expires.UnixMilli(),
	}, s.address())
	natstest.Eventually(t, patience, "the push", func() bool { return len(s.received()) == 1 })
	m := s.received()[0]
	if m.Route != 200 || string(m.Payload) != "p" || !m.Base64 || !m.Ack || m.MessageID != "m" ||
		m.Expires.UnixMilli() != expires.UnixMilli() || m.AckUntil.UnixMilli() != until.UnixMilli() {
		t.Fatalf("got %+v", m)
	}
	s.acknowledge(0)
	in.results()
}

func TestExpiredAndExcludedAreNotWritten(t *testing.T) {
	r := newRig(t)
	s, spared := r.session("eu/main/alice"), r.session("eu/main/alice")
	in := r.inbox()
	r.push(in, &wirepb.Push{ExpiresMs: time.Now().Add(-time.Second).UnixMilli()}, s.address())
	if got := deliveries(in.results())[0]; got != wirepb.Delivery_DELIVERY_NO_ANSWER {
		t.Errorf("expired: %v; a right route must not look stale", got)
	}
	r.push(in, &wirepb.Push{ExcludeSessions: [][]byte{spared.id[:], {1}}}, spared.address(), s.address())
	got := deliveries(in.results())
	if want := map[uint32]wirepb.Delivery{0: wirepb.Delivery_DELIVERY_UNSPECIFIED, 1: wirepb.Delivery_DELIVERY_QUEUED}; !maps.Equal(got, want) {
		t.Errorf("excluded: %v", got)
	}
	if len(spared.received()) != 0 || len(s.received()) != 1 {
		t.Errorf("received %d and %d", len(spared.received()), len(s.received()))
	}
}

func TestAPayloadIsEncodedOnceForEachCodec(t *testing.T) {
	r := newRig(t)
	sessions := make([]*fakeSession, 6)
	var to []*wirepb.Address
	for i := range sessions {
		sessions[i] = r.session("eu/main/alice")
		sessions[i].codec = frame.Codec(i % frame.Codecs)
		to = append(to, sessions[i].address())
	}
	in := r.inbox()
	r.push(in, &wirepb.Push{Route: 100, Payload: []byte(`{"a":1}`)}, to...)
	in.results()
	for i, s := range sessions {
		if s.encoded[0] != sessions[i%frame.Codecs].encoded[0] || s.encoded[0].Codec() != s.codec {
			t.Fatalf("session %d has an encoding of its own", i)
		}
	}
	if sessions[0].encoded[0] == sessions[1].encoded[0] {
		t.Fatal("two codecs share an encoding")
	}
}

func TestI11_PushesKeepTheirOrder(t *testing.T) {
	r := newRig(t)
	sessions := []*fakeSession{r.session("eu/main/alice"), r.session("eu/main/bob"), r.session("eu/main/carol")}
	const rounds, perBatch = 100, 5
	for n := range rounds {
		var items []*wirepb.OwnerPushItem
		for i := range perBatch {
			item := &wirepb.OwnerPushItem{Item: uint64(i), Push: &wirepb.Push{Payload: binary.BigEndian.AppendUint32(nil, uint32(n*perBatch+i))}}
			for _, s := range sessions {
				item.To = append(item.To, s.address())
			}
			items = append(items, item)
		}
		r.batch(nil, items...)
	}
	for _, s := range sessions {
		natstest.Eventually(t, patience, "all pushes", func() bool { return len(s.received()) == rounds*perBatch })
		for i, m := range s.received() {
			if got := binary.BigEndian.Uint32(m.Payload); got != uint32(i) {
				t.Fatalf("push %d came as number %d", got, i)
			}
		}
	}
}

func TestMalformedBatchesAreIgnored(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxItems, c.MaxAddresses = 3, 4 })
	s := r.session("eu/main/alice")
	a, item := s.address(), &wirepb.OwnerPushItem{Push: &wirepb.Push{}}
	in := r.inbox()
	subj := subject.Owner("gw", "boot", subject.OwnerPush)
	r.sendRaw(subj, in, []byte{0xff, 0xff, 0xff})
	r.sendRaw(subj, in, []byte("{}"))
	r.batch(in, item, item, item, item)                                                                           // too many items
	r.push(in, &wirepb.Push{}, a, a, a, a, a)                                                                     // too many addresses
	r.push(in, nil, a)                                                                                            // no push
	r.send(subj, in, &wirepb.OwnerPush{GatewayId: "gw", BootId: "earlier"})                                       // another life
	r.send(subj, in, &wirepb.OwnerPush{GatewayId: "other", BootId: "boot", Items: []*wirepb.OwnerPushItem{item}}) // another gateway
	r.push(in, &wirepb.Push{}, a)
	if got := in.results(); len(got) != 1 || got[0].Delivery != wirepb.Delivery_DELIVERY_QUEUED {
		t.Fatalf("the first answer is %v, want that of the last batch", got)
	}
	if m, d := r.counts.malformed.Load(), r.counts.misdirected.Load(); m != 5 || d != 2 || len(s.received()) != 1 {
		t.Fatalf("%d malformed, %d misdirected, %d received", m, d, len(s.received()))
	}
}

func TestLargeBatchesAreAnsweredInParts(t *testing.T) {
	r := newRig(t)
	a := r.session("eu/main/alice").address()
	in := r.inbox()
	to := make([]*wirepb.Address, maxResults+10)
	for i := range to {
		to[i] = a
	}
	r.push(in, &wirepb.Push{}, to...)
	if first, second := in.results(), in.results(); len(first) != maxResults || len(second) != 10 || second[9].Index != uint32(len(to)-1) {
		t.Fatalf("%d and %d results", len(first), len(second))
	}
}

// BenchmarkOwnerPush is one batch: pushes to one session each, or one push for many.
func BenchmarkOwnerPush(b *testing.B) {
	for _, size := range []struct{ items, addresses int }{{1, 1}, {16, 1}, {512, 1}, {1, 16}, {1, 512}} {
		b.Run(fmt.Sprintf("%d_pushes_%d_routes", size.items, size.addresses), func(b *testing.B) {
			benchmarkPush(b, size.items, size.addresses)
		})
	}
}
