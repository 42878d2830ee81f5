package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard-io/switchyard/authority/internal/delivery"
	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// until makes a parcel with a deadline.
func until(p *wirepb.Push, r *receipt, i int, after time.Duration) delivery.Parcel {
	x := parcel(p, r, i)
	x.Deadline = time.Now().Add(after)
	return x
}

// TestOpenAcksBlockNobody: pushes that wait for clients do not hold up those that do not, in any
// number, and are bounded by themselves (I12).
func TestOpenAcksBlockNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const inflight, acks = 4, 20
		c := &calls{}
		l := delivery.New(delivery.Config{InFlight: inflight, AckParcels: acks}, c)
		waiting, plain := newReceipt(), newReceipt()
		for i := range acks {
			l.Send(owner, until(&wirepb.Push{Ack: true}, waiting, i, time.Minute))
			synctest.Wait() // each in a batch of its own
		}
		if n := len(c.all()); n != acks {
			t.Fatalf("%d of %d acknowledged pushes were sent", n, acks)
		}
		l.Send(owner, until(&wirepb.Push{Ack: true}, waiting, acks, time.Minute))
		if waiting.count(wirepb.Delivery_DELIVERY_OVERFLOW) != 1 {
			t.Fatal("no bound")
		}
		l.Send(owner, until(&wirepb.Push{}, plain, 0, 2*time.Second))
		synctest.Wait()
		sent := c.all()
		if len(sent) != acks+1 {
			t.Fatal("a plain push waits for acknowledgements")
		}
		for _, s := range sent[:acks] {
			s.answer(wirepb.Delivery_DELIVERY_ACKED)
		}
		l.Send(owner, until(&wirepb.Push{Ack: true}, waiting, acks+1, time.Minute))
		synctest.Wait()
		if n := len(c.all()); n != acks+2 || waiting.count(wirepb.Delivery_DELIVERY_ACKED) != acks {
			t.Fatalf("%d sent after the acknowledgements came", n)
		}
		for i := range inflight + 3 { // one plain push is in flight already
			l.Send(owner, until(&wirepb.Push{}, plain, 1+i, 2*time.Second))
			synctest.Wait()
		}
		if n := len(c.all()) - acks - 2; n != inflight-1 {
			t.Fatalf("%d more plain pushes are in flight", n)
		}
		l.Send(owner, until(&wirepb.Push{Ack: true}, waiting, acks+2, time.Second))
		<-time.After(time.Minute)
		if waiting.of(acks+2) != wirepb.Delivery_DELIVERY_NO_ANSWER { // in the queue's order (I11)
			t.Fatal("overtook those before it")
		}
		l.Close()
	})
}

// TestFirstAnswerMakesRoom: a place is taken until the owner has answered at all.
func TestFirstAnswerMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		l := delivery.New(delivery.Config{InFlight: 1, BatchParcels: 2}, c)
		r := newReceipt()
		p := &wirepb.Push{}
		for i := range 4 {
			l.Send(owner, parcel(p, r, i))
		}
		synctest.Wait()
		for _, s := range c.all() {
			if s.answer(0, &wirepb.OwnerPushResult{Delivery: wirepb.Delivery_DELIVERY_QUEUED}) != (s.addresses() == 1) {
				t.Fatal("done too early or late")
			}
		}
		synctest.Wait()
		if n := len(c.all()); n < 2 {
			t.Fatalf("%d sent", n)
		}
		l.Close()
	})
}

// TestQueuedParcelsEndAtTheirDeadline: an owner that hangs answers nothing, and what waits for it is
// told so in its time, and is not sent when that is over.
func TestQueuedParcelsEndAtTheirDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		l := delivery.New(delivery.Config{InFlight: 1, BatchParcels: 1}, c)
		r := newReceipt()
		l.Send(owner, until(&wirepb.Push{}, r, 0, time.Hour))
		synctest.Wait()
		l.Send(owner, until(&wirepb.Push{}, r, 1, 3*time.Second))
		l.Send(owner, until(&wirepb.Push{}, r, 2, time.Minute))
		l.Send(owner, until(&wirepb.Push{Ack: true}, r, 3, time.Second)) // earlier than those before it
		<-time.After(1500 * time.Millisecond)
		synctest.Wait()
		if r.count(wirepb.Delivery_DELIVERY_NO_ANSWER) != 1 || r.of(3) != wirepb.Delivery_DELIVERY_NO_ANSWER {
			t.Fatal("not the one that was due")
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		if r.count(wirepb.Delivery_DELIVERY_NO_ANSWER) != 2 || r.of(1) != wirepb.Delivery_DELIVERY_NO_ANSWER {
			t.Fatal("not the one that was due")
		}
		c.all()[0].answer(wirepb.Delivery_DELIVERY_QUEUED)
		synctest.Wait()
		if sent := c.all(); len(sent) != 2 || sent[1].push.Items[0].To[0].OwnerSeq != 2 {
			t.Fatalf("%d sent", len(sent))
		}
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if n := len(c.all()); n != 2 || r.dup {
			t.Fatalf("%d sent, twice: %v", n, r.dup)
		}
		l.Close()
	})
}

// TestI11_OwnerBackKeepsTheQueue: an owner that is declared gone and comes back gets what was queued
// before and after in one order.
func TestI11_OwnerBackKeepsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		l := delivery.New(delivery.Config{InFlight: 1, BatchParcels: 1}, c)
		r := newReceipt()
		for i := range 3 {
			l.Send(owner, until(&wirepb.Push{}, r, i, time.Minute))
		}
		synctest.Wait()
		l.Forget(owner)
		for i := range 3 { // it is back
			l.Send(owner, until(&wirepb.Push{}, r, 3+i, time.Minute))
		}
		for i := range 6 {
			synctest.Wait()
			sent := c.all()
			if len(sent) != i+1 || sent[i].push.Items[0].To[0].OwnerSeq != uint64(i) {
				t.Fatalf("%d sent, in another order or side by side", len(sent))
			}
			sent[i].answer(wirepb.Delivery_DELIVERY_QUEUED)
		}
		synctest.Wait()
		if n := l.Counts().Owners; n != 0 {
			t.Fatalf("%d links of an owner that was gone", n)
		}
		l.Close()
	})
}

// TestI12_LinksOfTheDeadGo: a push that was under way when its owner died makes no link that stays,
// and idle links make room for others.
func TestI12_LinksOfTheDeadGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone sync.Map
		c := &calls{auto: func(s *sent) { s.cb(nil, natsconn.ErrNoResponders) }}
		l := delivery.New(delivery.Config{MaxOwners: 2, Gone: func(o directory.Owner) bool { _, is := gone.Load(o); return is }}, c)
		r := newReceipt()
		gone.Store(owner, true)
		l.Forget(owner)
		l.Send(owner, parcel(&wirepb.Push{}, r, 0))
		synctest.Wait()
		if n := l.Counts().Owners; n != 0 {
			t.Fatalf("%d links", n)
		}
		for i := range 10 {
			l.Send(directory.Owner{Gateway: fmt.Sprint("g", i), Boot: "b"}, parcel(&wirepb.Push{}, r, 1+i))
			synctest.Wait()
		}
		if n := r.count(wirepb.Delivery_DELIVERY_OVERFLOW); n != 0 || l.Counts().Owners > 2 {
			t.Fatalf("%d overflows, %d links", n, l.Counts().Owners)
		}
		l.Close()
	})
}

// TestI11_SendAndDrop: links that come and go lose and reorder nothing.
func TestI11_SendAndDrop(t *testing.T) {
	var next atomic.Uint64
	c := &calls{}
	c.auto = func(s *sent) {
		for _, it := range s.push.Items {
			for _, a := range it.To {
				if !next.CompareAndSwap(a.OwnerSeq, a.OwnerSeq+1) {
					t.Errorf("%d where %d was due", a.OwnerSeq, next.Load())
				}
			}
		}
		s.answer(wirepb.Delivery_DELIVERY_QUEUED)
	}
	l := delivery.New(delivery.Config{Gone: func(directory.Owner) bool { return true }}, c)
	r := newReceipt()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				l.Forget(owner)
			}
		}
	})
	const n = 3000
	for i := range n {
		l.Send(owner, parcel(&wirepb.Push{}, r, i))
	}
	close(stop)
	wg.Wait()
	l.Close()
	if r.count(wirepb.Delivery_DELIVERY_QUEUED) != n || r.dup {
		t.Fatalf("%d of %d", r.count(wirepb.Delivery_DELIVERY_QUEUED), n)
	}
}

// TestI11_Flush: it waits for what was queued before, and not for what comes after.
func TestI11_Flush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		l := delivery.New(delivery.Config{InFlight: 1, BatchParcels: 1}, c)
		r := newReceipt()
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.Send(owner, parcel(&wirepb.Push{}, r, 0))
		l.Send(owner, parcel(&wirepb.Push{}, r, 1))
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Flush(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("flushed beside a waiting parcel: %v", err)
		}
		flushed := make(chan error, 1)
		go func() { flushed <- l.Flush(context.Background()) }()
		synctest.Wait()
		l.Send(owner, parcel(&wirepb.Push{}, r, 2))
		c.all()[0].answer(wirepb.Delivery_DELIVERY_QUEUED)
		synctest.Wait()
		select {
		case err := <-flushed:
			if err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatal("waits for what came after")
		}
		if n := len(c.all()); n != 2 {
			t.Fatalf("%d sent", n)
		}
		l.Close()
	})
}

// TestI11_FlushDoesWithoutTheHung: an owner that answers nothing keeps no other's parcels from being
// flushed in time.
func TestI11_FlushDoesWithoutTheHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := delivery.New(delivery.Config{InFlight: 1, BatchParcels: 1}, &calls{})
		r := newReceipt()
		for i := range 2 {
			l.Send(owner, until(&wirepb.Push{}, r, i, time.Hour))
		}
		bound, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := l.Flush(bound); err != nil {
			t.Fatal(err)
		}
		l.Close()
	})
}

// TestI12_AcksOfAllOwners: open acknowledgements are bounded over all owners, and a result makes room.
func TestI12_AcksOfAllOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		l := delivery.New(delivery.Config{AllAckParcels: 2}, c)
		r := newReceipt()
		send := func(i int) {
			l.Send(directory.Owner{Gateway: fmt.Sprint("g", i), Boot: "b"}, until(&wirepb.Push{Ack: true}, r, i, time.Minute))
			synctest.Wait()
		}
		for i := range 3 {
			send(i)
		}
		if len(c.all()) != 2 || r.of(2) != wirepb.Delivery_DELIVERY_OVERFLOW {
			t.Fatal("no bound")
		}
		c.all()[0].answer(wirepb.Delivery_DELIVERY_ACKED)
		if send(3); len(c.all()) != 3 {
			t.Fatal("no room after a result")
		}
		l.Close()
	})
}

// TestCloseSettlesTheQueue: what an owner that hangs holds up has its result when Close returns, and
// an answer that comes later sends nothing.
func TestCloseSettlesTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &calls{}
		l := delivery.New(delivery.Config{InFlight: 1, BatchParcels: 1}, c)
		r := newReceipt()
		for i := range 3 {
			l.Send(owner, until(&wirepb.Push{}, r, i, time.Minute))
		}
		synctest.Wait()
		l.Close()
		if n := r.count(wirepb.Delivery_DELIVERY_NO_ANSWER); n != 2 {
			t.Fatalf("%d settled", n)
		}
		c.all()[0].answer(wirepb.Delivery_DELIVERY_QUEUED)
		l.Send(owner, until(&wirepb.Push{}, r, 3, time.Minute))
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if n := len(c.all()); n != 1 || r.dup || r.of(0) != wirepb.Delivery_DELIVERY_QUEUED || r.of(3) != wirepb.Delivery_DELIVERY_OVERFLOW {
			t.Fatalf("%d sent, twice: %v", n, r.dup)
		}
	})
}
