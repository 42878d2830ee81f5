package delivery

import (
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// ackSpread is how far the deadlines of parcels in one batch may lie apart when they wait for
// acknowledgements: a batch waits as long as its last.
const ackSpread = 250 * time.Millisecond

// link is the queue to one owner.
type link struct {
	links   *Links
	owner   directory.Owner
	subject string

	mu       sync.Mutex
	queue    []Parcel
	bytes    int // of queue
	inflight int
	running  bool
}

func (k *link) send(p Parcel) {
	cfg := &k.links.cfg
	k.mu.Lock()
	size := p.addressBytes()
	if n := len(k.queue); n == 0 || k.queue[n-1].Push != p.Push {
		size += pushBytes(p.Push)
	}
	if len(k.queue) >= cfg.QueueParcels || (k.bytes+size > cfg.QueueBytes && len(k.queue) > 0) {
		k.mu.Unlock()
		k.links.stats.overflow.Add(1)
		p.Receipt.Delivered(p.Index, wirepb.Delivery_DELIVERY_OVERFLOW)
		return
	}
	k.queue = append(k.queue, p)
	k.bytes += size
	k.wakeLocked()
	k.mu.Unlock()
}

// wakeLocked has the queue emptied, unless that happens already or must wait for results.
func (k *link) wakeLocked() {
	if k.running || len(k.queue) == 0 || k.inflight >= k.links.cfg.InFlight {
		return
	}
	k.running = true
	k.links.wg.Go(k.run)
}

// run sends batches until the queue is empty or too many batches wait. One at a time: the order of
// the queue is the order on the wire (I11).
func (k *link) run() {
	w := writers.Get().(*writer)
	defer writers.Put(w)
	for {
		k.mu.Lock()
		if len(k.queue) == 0 || k.inflight >= k.links.cfg.InFlight {
			k.running = false
			k.mu.Unlock()
			return
		}
		b := &batch{link: k, parcels: k.takeLocked()}
		k.inflight++
		k.mu.Unlock()
		b.send(w)
	}
}

// takeLocked cuts the next batch off the queue.
func (k *link) takeLocked() []Parcel {
	cfg := &k.links.cfg
	first := &k.queue[0]
	n, size := 0, 0
	for n < len(k.queue) && n < cfg.BatchParcels {
		p := &k.queue[n]
		add := p.addressBytes()
		if n == 0 || k.queue[n-1].Push != p.Push {
			add += pushBytes(p.Push)
		}
		if n > 0 && (size+add > cfg.BatchBytes || p.Push.Ack != first.Push.Ack || p.Push.Ack && apart(p.Deadline, first.Deadline)) {
			break
		}
		size += add
		n++
	}
	taken := k.queue[:n:n]
	k.queue = k.queue[n:]
	k.bytes -= size
	if len(k.queue) == 0 {
		k.queue, k.bytes = nil, 0
	} else if k.queue[0].Push == taken[n-1].Push {
		k.bytes += pushBytes(k.queue[0].Push) // the rest of a push that was cut in two carries it again
	}
	return taken
}

func apart(a, b time.Time) bool { return a.Sub(b).Abs() > ackSpread }

// finished makes room for another batch.
func (k *link) finished() {
	k.mu.Lock()
	k.inflight--
	k.wakeLocked()
	k.mu.Unlock()
}

// batch is one owner-push call. After send, only the caller's goroutine uses it.
type batch struct {
	link    *link
	parcels []Parcel
	// starts has the first parcel of each item.
	starts   []int
	answered []bool
	left     int
}

func (b *batch) send(w *writer) {
	stats := &b.link.links.stats
	b.left = len(b.parcels)
	b.answered = make([]bool, len(b.parcels))
	deadline, header := b.parcels[0].Deadline, nats.Header(nil)
	for i := range b.parcels {
		p := &b.parcels[i]
		if p.Deadline.After(deadline) {
			deadline = p.Deadline
		}
		if header == nil {
			header = p.Header
		}
	}
	data, starts, err := w.encode(b.link.owner, b.parcels)
	b.starts = starts
	stats.batches.Add(1)
	stats.parcels.Add(int64(len(b.parcels)))
	if err == nil {
		err = b.link.links.calls.Call(b.link.subject, data, header, deadline, b.reply)
	}
	if err != nil {
		b.fail(err)
		b.link.finished()
	}
}

// reply takes one answer of the owner, or the end of the call.
func (b *batch) reply(m *nats.Msg, err error) (done bool) {
	var r wirepb.OwnerPushReply
	if err == nil {
		err = r.UnmarshalVT(m.Data)
	}
	if err != nil {
		b.fail(err)
		b.link.finished()
		return true
	}
	for _, res := range r.Results {
		if res.Item < uint64(len(b.starts)) {
			b.answer(int(res.Item), int(res.Index), res.Delivery)
		}
	}
	if b.left == 0 {
		b.link.finished()
		return true
	}
	return false
}

// answer passes one result on. What the owner says twice, or of addresses that it was not given,
// is ignored.
func (b *batch) answer(item, index int, d wirepb.Delivery) {
	end := len(b.parcels)
	if item+1 < len(b.starts) {
		end = b.starts[item+1]
	}
	i := b.starts[item] + index
	if index >= end-b.starts[item] || b.answered[i] {
		return
	}
	b.settle(i, d)
}

func (b *batch) settle(i int, d wirepb.Delivery) {
	b.answered[i] = true
	b.left--
	p := &b.parcels[i]
	b.link.links.stats.count(d)
	p.Receipt.Delivered(p.Index, d)
}

// fail settles what is left. Nobody on the owner's subject means that its process life is over:
// its routes are stale.
func (b *batch) fail(err error) {
	d := wirepb.Delivery_DELIVERY_NO_ANSWER
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		d = wirepb.Delivery_DELIVERY_STALE
	case errors.Is(err, errQueueFull):
		d = wirepb.Delivery_DELIVERY_OVERFLOW
	}
	for i := range b.parcels {
		if !b.answered[i] {
			b.settle(i, d)
		}
	}
}
