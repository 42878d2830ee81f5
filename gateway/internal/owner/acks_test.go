package owner

import (
	"slices"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

func soon(d time.Duration) int64 { return time.Now().Add(d).UnixMilli() }

func TestAcknowledgementsFollowTheAnswer(t *testing.T) {
	r := newRig(t)
	acks, binary, slow, stale := r.session("eu/main/a"), r.session("eu/main/b"), r.session("eu/main/c"), r.session("eu/main/d")
	binary.codec = frame.ELR2
	stale.set(Stale)
	in := r.inbox()
	r.push(in, &wirepb.Push{Ack: true, AckDeadlineMs: soon(time.Hour)}, acks.address(), binary.address(), slow.address(), stale.address())
	got := deliveries(in.results())
	if len(got) != 2 || got[1] != wirepb.Delivery_DELIVERY_QUEUED || got[3] != wirepb.Delivery_DELIVERY_STALE {
		t.Fatalf("at once: %v", got)
	}
	acks.acknowledge(0)
	acks.acknowledge(0) // a second time is nothing
	if got := in.results(); len(got) != 1 || got[0].Item != 1 || got[0].Index != 0 || got[0].Delivery != wirepb.Delivery_DELIVERY_ACKED {
		t.Fatalf("acknowledged: %v", got)
	}
	slow.answer(0, false) // its session ends: the hour is not waited for
	if got := in.results(); len(got) != 1 || got[0].Index != 2 || got[0].Delivery != wirepb.Delivery_DELIVERY_ACK_TIMEOUT {
		t.Fatalf("ended: %v", got)
	}
	if n := r.acks.open.Load(); n != 0 {
		t.Fatalf("%d waits are left", n)
	}
}

func TestMissingAcknowledgementsAreReportedTogether(t *testing.T) {
	r := newRig(t)
	a, b, c := r.session("eu/main/a"), r.session("eu/main/b"), r.session("eu/main/c")
	in := r.inbox()
	r.push(in, &wirepb.Push{Ack: true, AckDeadlineMs: soon(100 * time.Millisecond)}, a.address(), b.address(), c.address())
	natstest.Eventually(t, patience, "the push", func() bool { return len(c.received()) == 1 })
	b.acknowledge(0)
	if got := deliveries(in.results()); len(got) != 1 || got[1] != wirepb.Delivery_DELIVERY_ACKED {
		t.Fatalf("first %v", got)
	}
	got := deliveries(in.results())
	if len(got) != 2 || got[0] != wirepb.Delivery_DELIVERY_ACK_TIMEOUT || got[2] != wirepb.Delivery_DELIVERY_ACK_TIMEOUT {
		t.Fatalf("then %v", got)
	}
	a.acknowledge(0) // too late: each address is answered once
	r.push(in, &wirepb.Push{Route: 7}, a.address())
	if got := in.results(); got[0].Delivery != wirepb.Delivery_DELIVERY_QUEUED {
		t.Fatalf("a late acknowledgement was reported: %v", got)
	}
}

func TestAnAcknowledgementMayComeBeforePushReturns(t *testing.T) {
	r := newRig(t)
	s := r.session("eu/main/a")
	s.ackNow = true
	in := r.inbox()
	r.push(in, &wirepb.Push{Ack: true}, s.address())
	if got := in.results(); len(got) != 1 || got[0].Delivery != wirepb.Delivery_DELIVERY_ACKED {
		t.Fatalf("got %v", got)
	}
}

func TestI12_WaitsAreBounded(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxAckWaits = 2 })
	s := r.session("eu/main/a")
	in := r.inbox()
	r.push(in, &wirepb.Push{Ack: true, AckDeadlineMs: soon(time.Hour)}, s.address(), s.address(), s.address())
	got := deliveries(in.results())
	if len(got) != 1 || got[2] != wirepb.Delivery_DELIVERY_ACK_TIMEOUT || len(s.received()) != 3 {
		t.Fatalf("got %v, %d received", got, len(s.received()))
	}
	s.acknowledge(0)
	in.results()
	r.push(in, &wirepb.Push{Ack: true, AckDeadlineMs: soon(time.Hour)}, s.address(), s.address())
	if got := deliveries(in.results()); len(got) != 1 || got[1] != wirepb.Delivery_DELIVERY_ACK_TIMEOUT {
		t.Fatalf("the free place was not used: %v", got)
	}
	s.acknowledge(1)
	s.acknowledge(2)
}

func TestAckWaitsAreCut(t *testing.T) {
	o := &Owner{cfg: Config{Gateway: "g", Boot: "b", MaxAckWait: 30 * time.Second}}
	now := time.Now()
	for asked, want := range map[int64]time.Duration{
		0: defaultAckWait, now.Add(10 * time.Second).UnixMilli(): 10 * time.Second, now.Add(time.Hour).UnixMilli(): 30 * time.Second,
	} {
		m, _ := o.message(&wirepb.Push{Ack: true, AckDeadlineMs: asked}, now)
		if d := m.AckUntil.Sub(now); d > want || d < want-time.Millisecond {
			t.Errorf("asked for %d: %v, want %v", asked, d, want)
		}
	}
}

func TestAckSetSettlesAfterItsLastReport(t *testing.T) {
	book := &acks{max: 10}
	var order []string
	inReport := make(chan struct{})
	release := make(chan struct{})
	s := newAckSet(book, func(n []uint32, acked bool) {
		close(inReport)
		<-release
		order = append(order, "report")
	})
	acked, _ := s.add(3)
	s.seal(time.Now().Add(time.Hour))
	done := make(chan struct{})
	go func() { acked(true); close(done) }()
	<-inReport
	s.then(func() { order = append(order, "settled") }) // nothing is open, but a report is under way
	close(release)
	<-done
	if !slices.Equal(order, []string{"report", "settled"}) {
		t.Fatalf("order %v", order)
	}
	called := false
	s.then(func() { called = true })
	if !called {
		t.Fatal("a settled set does not settle at once")
	}
}
