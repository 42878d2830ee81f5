package owner

import (
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// onPush serves one batch of pushes. Batches are handled one after the other, and items in
// their order, so pushes of one sender to one session keep theirs (I11).
func (o *Owner) onPush(msg *nats.Msg) {
	batch := wirepb.OwnerPushFromVTPool()
	defer batch.ReturnToVTPool()
	err := batch.UnmarshalVT(msg.Data)
	addresses := addressesOf(batch)
	if err != nil || len(batch.Items) > o.cfg.MaxItems || addresses > o.cfg.MaxAddresses {
		o.counts.malformed.Add(1)
		return
	}
	if !o.here(batch.GatewayId, batch.BootId) {
		return
	}
	o.counts.batches.Add(1)
	now := time.Now()
	r := resultPool.Get().(*results)
	defer r.release()
	r.grow(addresses)
	for _, item := range batch.Items {
		m, ok := o.message(item.GetPush(), now)
		if !ok {
			o.counts.malformed.Add(1)
			continue
		}
		o.pushItem(r, msg.Reply, item, m, now)
	}
	o.replyPush(msg.Reply, r.list)
}

// results are those of one batch, in memory that is used again for the next. Its bound is a batch's.
type results struct {
	room []wirepb.OwnerPushResult
	list []*wirepb.OwnerPushResult // into room
}

var resultPool = sync.Pool{New: func() any { return new(results) }}

// grow makes room for n, before the first of them.
func (r *results) grow(n int) {
	r.room, r.list = slices.Grow(r.room, n), slices.Grow(r.list, n)
}

func (r *results) add(item uint64, index uint32, d wirepb.Delivery) {
	r.room = r.room[:len(r.room)+1]
	p := &r.room[len(r.room)-1]
	p.Item, p.Index, p.Delivery = item, index, d
	r.list = append(r.list, p)
}

func (r *results) release() {
	clear(r.list)
	r.room, r.list = r.room[:0], r.list[:0]
	resultPool.Put(r)
}

func addressesOf(b *wirepb.OwnerPush) (n int) {
	for _, item := range b.Items {
		n += len(item.To)
	}
	return n
}

// here reports whether a message names this life of this gateway. The subject does too, so
// anything else is a sender's mistake.
func (o *Owner) here(gateway, boot string) bool {
	if gateway == o.cfg.Gateway && boot == o.cfg.Boot {
		return true
	}
	o.counts.misdirected.Add(1)
	return false
}

// pushItem writes one item to its addresses and adds the results that are known at once. Those
// that wait for an acknowledgement are answered by themselves, later: without the item, whose
// memory is another batch's by then.
func (o *Owner) pushItem(r *results, reply string, item *wirepb.OwnerPushItem, m *Message, now time.Time) {
	var set *ackSet
	number := item.Item
	if m.Ack && reply != "" {
		set = newAckSet(&o.acks, func(numbers []uint32, acked bool) { o.replyAcks(reply, number, numbers, acked) })
	}
	for i, a := range item.To {
		d, waiting := o.pushExact(a, m, set, uint32(i), now)
		if !waiting {
			r.add(number, uint32(i), d)
		}
	}
	if set != nil {
		set.seal(m.AckUntil)
	}
}

// exact finds the session that an address names: that user, that session, under a sequence that
// was announced (I2).
func (o *Owner) exact(a *wirepb.Address) (Session, bool) {
	id, err := identity.SessionIDFromBytes(a.GetSessionId())
	if err != nil {
		return nil, false
	}
	return o.sessions.Exact(identity.UID(a.Uid), id, a.OwnerSeq)
}

// pushExact writes a push to the session that an address names exactly, or to none.
func (o *Owner) pushExact(a *wirepb.Address, m *Message, set *ackSet, n uint32, now time.Time) (d wirepb.Delivery, waiting bool) {
	s, ok := o.exact(a)
	if !ok {
		return o.delivery(Stale), false
	}
	return o.pushTo(s, m, set, n, now)
}

// pushTo writes a push to one session. waiting: its answer follows from set, under number n.
func (o *Owner) pushTo(s Session, m *Message, set *ackSet, n uint32, now time.Time) (d wirepb.Delivery, waiting bool) {
	if m.excludes(s.ID()) {
		return wirepb.Delivery_DELIVERY_UNSPECIFIED, false
	}
	if m.expired(now) {
		o.counts.expired.Add(1)
		return wirepb.Delivery_DELIVERY_NO_ANSWER, false // not stale: the route is right
	}
	var acked Acked
	refused := false
	if set != nil {
		var ok bool
		if acked, ok = set.add(n); !ok {
			refused = true
			o.counts.ackRefused.Add(1)
		}
	}
	status := s.Push(m, acked)
	if status == Waiting && acked != nil {
		o.counts.queued.Add(1)
		return 0, true
	}
	if acked != nil && !set.remove(n) {
		return 0, true // reported meanwhile
	}
	d = o.delivery(status)
	if refused && d == wirepb.Delivery_DELIVERY_QUEUED {
		d = wirepb.Delivery_DELIVERY_ACK_TIMEOUT
	}
	return d, false
}

// delivery counts a status and returns its wire form.
func (o *Owner) delivery(s Status) wirepb.Delivery {
	switch s {
	case Queued, Waiting:
		o.counts.queued.Add(1)
		return wirepb.Delivery_DELIVERY_QUEUED
	case Parked:
		o.counts.parked.Add(1)
		return wirepb.Delivery_DELIVERY_PARKED
	case Overflow:
		o.counts.overflow.Add(1)
		return wirepb.Delivery_DELIVERY_OVERFLOW
	}
	o.counts.stale.Add(1)
	return wirepb.Delivery_DELIVERY_STALE
}

func (o *Owner) replyAcks(reply string, item uint64, numbers []uint32, acked bool) {
	d := o.ackDelivery(len(numbers), acked)
	results := make([]*wirepb.OwnerPushResult, len(numbers))
	for i, n := range numbers {
		results[i] = &wirepb.OwnerPushResult{Item: item, Index: n, Delivery: d}
	}
	o.replyPush(reply, results)
}

func (o *Owner) ackDelivery(n int, acked bool) wirepb.Delivery {
	if acked {
		o.counts.acked.Add(int64(n))
		return wirepb.Delivery_DELIVERY_ACKED
	}
	o.counts.ackTimeouts.Add(int64(n))
	return wirepb.Delivery_DELIVERY_ACK_TIMEOUT
}

// replyPush sends results, if anybody waits for them, in replies of bounded size.
func (o *Owner) replyPush(reply string, results []*wirepb.OwnerPushResult) {
	for len(results) > 0 && reply != "" {
		n := min(len(results), maxResults)
		o.publish(reply, &wirepb.OwnerPushReply{Results: results[:n]})
		results = results[n:]
	}
}

// publish sends one reply. It is not waited for: a connection that is away loses it, and the
// asker's deadline tells.
func (o *Owner) publish(reply string, m interface{ MarshalVT() ([]byte, error) }) {
	data, err := m.MarshalVT()
	if err == nil {
		err = o.nc.Publish(reply, data)
	}
	if err != nil {
		o.counts.lost.Add(1)
	}
}
