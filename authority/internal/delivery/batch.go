package delivery

import (
	"errors"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// batch is one owner-push call. After send, only the caller's goroutine uses it.
type batch struct {
	link    *link
	parcels []Parcel
	// starts has the first parcel of each item.
	starts   []int
	answered []bool
	left     int
	ack      bool
	freed    bool // its place is another's
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
	}
}

// free gives the batch's place up: the owner has answered, or the call is over.
func (b *batch) free() {
	if !b.ack && !b.freed {
		b.freed = true
		b.link.answered()
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
		return true
	}
	b.free()
	before := b.left
	for _, res := range r.Results {
		if res.Item < uint64(len(b.starts)) {
			b.answer(int(res.Item), int(res.Index), res.Delivery)
		}
	}
	b.settled(before - b.left)
	return b.left == 0
}

func (b *batch) settled(n int) {
	if b.ack {
		b.link.settled(n)
	}
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

// fail settles what is left. That nobody hears the owner's subject makes its routes stale only
// where its life is known to be over: a gateway whose connection moves to another server is not
// heard for a moment, and its sockets live on (I7, I9).
func (b *batch) fail(err error) {
	b.free()
	before := b.left
	d := wirepb.Delivery_DELIVERY_NO_ANSWER
	switch {
	case errors.Is(err, nats.ErrNoResponders) && b.link.links.cfg.Gone(b.link.owner):
		d = wirepb.Delivery_DELIVERY_STALE
	case errors.Is(err, errQueueFull):
		d = wirepb.Delivery_DELIVERY_OVERFLOW
	}
	for i := range b.parcels {
		if !b.answered[i] {
			b.settle(i, d)
		}
	}
	b.settled(before)
}
