package delivery_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/switchyard-io/switchyard/authority/internal/delivery"
	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

var owner = directory.Owner{Gateway: "g1", Boot: "b1"}

// sent is one call that was made.
type sent struct {
	subject  string
	push     wirepb.OwnerPush
	size     int
	deadline time.Time
	cb       natsconn.Callback
}

// calls records what is sent, in order, and answers when the test says so.
type calls struct {
	mu   sync.Mutex
	sent []*sent
	fail error
	auto func(*sent) // answers at once
}

func (c *calls) Call(subj string, data []byte, _ nats.Header, deadline time.Time, cb natsconn.Callback) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return c.fail
	}
	s := &sent{subject: subj, deadline: deadline, cb: cb, size: len(data)}
	if err := s.push.UnmarshalVT(slices.Clone(data)); err != nil {
		return err
	}
	c.sent = append(c.sent, s)
	if c.auto != nil {
		c.auto(s)
	}
	return nil
}

func (c *calls) all() []*sent {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sent)
}

func (s *sent) addresses() (n int) {
	for _, it := range s.push.Items {
		n += len(it.To)
	}
	return n
}

func (s *sent) answer(d wirepb.Delivery, results ...*wirepb.OwnerPushResult) bool {
	if results == nil {
		for _, it := range s.push.Items {
			for i := range it.To {
				results = append(results, &wirepb.OwnerPushResult{Item: it.Item, Index: uint32(i), Delivery: d})
			}
		}
	}
	data, err := (&wirepb.OwnerPushReply{Results: results}).MarshalVT()
	if err != nil {
		panic(err)
	}
	return s.cb(&nats.Msg{Data: data}, nil)
}

// receipt collects results by index.
type receipt struct {
	mu  sync.Mutex
	got map[int]wirepb.Delivery
	dup bool
}

func newReceipt() *receipt { return &receipt{got: map[int]wirepb.Delivery{}} }

func (r *receipt) Delivered(i int, d wirepb.Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, twice := r.got[i]
	r.dup = r.dup || twice
	r.got[i] = d
}

func (r *receipt) count(d wirepb.Delivery) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.got {
		if v == d {
			n++
		}
	}
	return n
}

func (r *receipt) of(i int) wirepb.Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[i]
}

func parcel(p *wirepb.Push, r *receipt, i int) delivery.Parcel {
	return delivery.Parcel{
		Push: p, UID: identity.UID(fmt.Sprintf("eu/main/u%d", i)), Session: identity.SessionID{0: byte(i), 1: byte(i >> 8)},
		Seq: uint64(i), Deadline: time.Now().Add(time.Minute), Receipt: r, Index: i,
	}
}

// TestI11_QueueOrder: parcels leave in the order of Send, within the bounds of a batch, and
// neighbours of one push share its payload.
func TestI11_QueueOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &calls{auto: func(s *sent) { s.answer(wirepb.Delivery_DELIVERY_QUEUED) }}
		cfg := delivery.Config{
			BatchParcels: rapid.IntRange(1, 20).Draw(t, "parcels"), BatchBytes: rapid.IntRange(100, 4000).Draw(t, "bytes"),
			InFlight: rapid.IntRange(1, 3).Draw(t, "in flight"),
		}
		l := delivery.New(cfg, c)
		r := newReceipt()
		n := 0
		for k, run := range rapid.SliceOfN(rapid.IntRange(1, 30), 1, 10).Draw(t, "runs") {
			p := &wirepb.Push{Route: uint32(k), Payload: make([]byte, rapid.IntRange(0, 1000).Draw(t, "payload")), Ack: rapid.Bool().Draw(t, "ack")}
			for range run {
				l.Send(owner, parcel(p, r, n))
				n++
			}
		}
		l.Close()
		next := 0
		for _, s := range c.all() {
			if s.subject != subject.Owner("g1", "b1", subject.OwnerPush) || s.addresses() > cfg.BatchParcels ||
				s.addresses() > 1 && s.size > cfg.BatchBytes {
				t.Fatalf("batch of %d addresses, %d bytes to %s", s.addresses(), s.size, s.subject)
			}
			for i, it := range s.push.Items {
				if i > 0 && (it.Push.Route == s.push.Items[i-1].Push.Route || it.Push.Ack != s.push.Items[0].Push.Ack) {
					t.Fatalf("items %d and %d should not be neighbours", i-1, i)
				}
				for _, a := range it.To {
					if a.OwnerSeq != uint64(next) || a.Uid != fmt.Sprintf("eu/main/u%d", next) {
						t.Fatalf("address %v where %d was due", a, next)
					}
					next++
				}
			}
		}
		if next != n || r.count(wirepb.Delivery_DELIVERY_QUEUED) != n || r.dup {
			t.Fatalf("%d of %d sent, %d answered", next, n, len(r.got))
		}
	})
}

// TestResultsArriveLater: results of one batch come in any order and number; nonsense is ignored.
func TestResultsArriveLater(t *testing.T) {
	c := &calls{}
	l := delivery.New(delivery.Config{}, c)
	r := newReceipt()
	p := &wirepb.Push{Route: 100, Ack: true}
	l.Send(owner, parcel(p, r, 0))
	l.Send(owner, parcel(p, r, 1))
	l.Close()
	// Both may have left in one batch or in two.
	for _, s := range c.all() {
		last := uint32(s.addresses() - 1)
		nonsense := []*wirepb.OwnerPushResult{
			{Item: 7, Index: 0, Delivery: wirepb.Delivery_DELIVERY_STALE}, {Item: 0, Index: 9, Delivery: wirepb.Delivery_DELIVERY_STALE},
			{Item: 0, Index: 1 << 31, Delivery: wirepb.Delivery_DELIVERY_STALE}, {Item: 1 << 63, Delivery: wirepb.Delivery_DELIVERY_STALE},
		}
		if s.answer(0, nonsense...) {
			t.Fatal("done after nonsense")
		}
		if done := s.answer(0, &wirepb.OwnerPushResult{Index: last, Delivery: wirepb.Delivery_DELIVERY_ACKED}); done != (last == 0) {
			t.Fatal("done too early")
		}
		if last > 0 && !s.answer(wirepb.Delivery_DELIVERY_ACKED) {
			t.Fatal("not done after all")
		}
	}
	if r.count(wirepb.Delivery_DELIVERY_ACKED) != 2 || r.dup {
		t.Fatalf("%v", r.got)
	}
}

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		call bool // fails in Call itself
		want wirepb.Delivery
	}{
		"owner gone":         {natsconn.ErrNoResponders, false, wirepb.Delivery_DELIVERY_STALE},
		"owner unheard":      {natsconn.ErrNoResponders, false, wirepb.Delivery_DELIVERY_NO_ANSWER},
		"no answer":          {fault.ErrTimeout, false, wirepb.Delivery_DELIVERY_NO_ANSWER},
		"connection lost":    {fault.ErrUnavailable, false, wirepb.Delivery_DELIVERY_NO_ANSWER},
		"too many calls":     {fault.ErrQueueFull, true, wirepb.Delivery_DELIVERY_OVERFLOW},
		"not connected":      {fault.ErrUnavailable, true, wirepb.Delivery_DELIVERY_NO_ANSWER},
		"deadline long over": {fault.ErrTimeout, true, wirepb.Delivery_DELIVERY_NO_ANSWER},
	} {
		t.Run(name, func(t *testing.T) {
			k := &calls{}
			if c.call {
				k.fail = c.err
			} else {
				k.auto = func(s *sent) { s.cb(nil, c.err) }
			}
			l := delivery.New(delivery.Config{Gone: func(directory.Owner) bool { return name == "owner gone" }}, k)
			r := newReceipt()
			l.Send(owner, parcel(&wirepb.Push{}, r, 0))
			l.Close()
			if r.count(c.want) != 1 || r.dup {
				t.Fatalf("%v", r.got)
			}
		})
	}
}

// TestI12_QueueBounds: one owner that does not answer fills its own queue, and nobody else's.
func TestI12_QueueBounds(t *testing.T) {
	c := &calls{}
	l := delivery.New(delivery.Config{InFlight: 1, BatchParcels: 1, QueueParcels: 4, MaxOwners: 2}, c)
	r, other := newReceipt(), newReceipt()
	p := &wirepb.Push{}
	for i := range 20 {
		l.Send(owner, parcel(p, r, i))
	}
	if n := r.count(wirepb.Delivery_DELIVERY_OVERFLOW); n < 15 || n > 16 { // one may be in flight
		t.Fatalf("%d overflows", n)
	}
	l.Send(directory.Owner{Gateway: "g2", Boot: "b"}, parcel(p, other, 0))
	l.Send(directory.Owner{Gateway: "g3", Boot: "b"}, parcel(p, other, 1)) // no room for a third owner
	if other.count(wirepb.Delivery_DELIVERY_OVERFLOW) != 1 {
		t.Fatalf("%v", other.got)
	}
	c.mu.Lock()
	c.auto = func(s *sent) { s.answer(wirepb.Delivery_DELIVERY_QUEUED) }
	c.mu.Unlock()
	l.Close()
	for _, s := range c.all() {
		if s.deadline.IsZero() {
			t.Fatal("a call without deadline")
		}
		s.answer(wirepb.Delivery_DELIVERY_QUEUED)
	}
}

func TestAct(t *testing.T) {
	reply := func(rs ...wirepb.ActionResult) []byte {
		data, err := (&wirepb.OwnerActionReply{Results: rs}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, c := range map[string]struct {
		data []byte
		err  error
		want error
	}{
		"done":          {reply(wirepb.ActionResult_ACTION_RESULT_DONE), nil, nil},
		"gone":          {nil, natsconn.ErrNoResponders, nats.ErrNoResponders},
		"unheard":       {nil, natsconn.ErrNoResponders, fault.ErrUnavailable},
		"short answer":  {reply(), nil, fault.ErrInternal},
		"garbage":       {[]byte{0xff}, nil, nil},
		"does not come": {nil, fault.ErrTimeout, fault.ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			k := actCalls{data: c.data, err: c.err}
			l := delivery.New(delivery.Config{Gone: func(directory.Owner) bool { return name == "gone" }}, k)
			n := 0
			l.Act(owner, &wirepb.OwnerAction{Sessions: []*wirepb.Address{{}}}, time.Now().Add(time.Minute), func(rs []wirepb.ActionResult, err error) {
				n++
				if name == "garbage" {
					if err == nil {
						t.Error("garbage was taken")
					}
				} else if !errors.Is(err, c.want) || err == nil && len(rs) != 1 {
					t.Errorf("%v %v", rs, err)
				}
			})
			l.Close()
			if n != 1 {
				t.Fatalf("done was called %d times", n)
			}
		})
	}
}

type actCalls struct {
	data []byte
	err  error
}

func (a actCalls) Call(_ string, _ []byte, _ nats.Header, _ time.Time, cb natsconn.Callback) error {
	if a.err != nil {
		cb(nil, a.err)
	} else {
		cb(&nats.Msg{Data: a.data}, nil)
	}
	return nil
}

// BenchmarkSend is one parcel to one owner that answers at once.
func BenchmarkSend(b *testing.B) {
	c := &nullCalls{}
	l := delivery.New(delivery.Config{}, c)
	r := nullReceipt{}
	p := &wirepb.Push{Route: 100, Payload: make([]byte, 256)}
	x := parcel(p, nil, 1)
	x.Receipt = r
	b.ReportAllocs()
	for b.Loop() {
		l.Send(owner, x)
	}
	l.Close()
}

type nullReceipt struct{}

func (nullReceipt) Delivered(int, wirepb.Delivery) {}

type nullCalls struct{}

func (*nullCalls) Call(_ string, _ []byte, _ nats.Header, _ time.Time, cb natsconn.Callback) error {
	cb(nil, fault.ErrTimeout)
	return nil
}
