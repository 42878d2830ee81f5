package owner

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// onPush serves one batch of pushes. Batches are handled one after the other, and items in
// their order, so pushes of one sender to one session keep theirs (I11).
func (o *Owner) onPush(msg *nats.Msg) {
	var batch wirepb.OwnerPush
	if err := batch.UnmarshalVT(msg.Data); err != nil || !o.fits(&batch) {
		o.counts.malformed.Add(1)
		return
	}
	if !o.here(batch.GatewayId, batch.BootId) {
		return
	}
	o.counts.batches.Add(1)
	now := time.Now()
	var results []*wirepb.OwnerPushResult
	for _, item := range batch.Items {
		m, ok := o.message(item.GetPush(), now)
		if !ok {
			o.counts.malformed.Add(1)
			continue
		}
		results = o.pushItem(results, msg.Reply, item, m, now)
	}
	o.replyPush(msg.Reply, results)
}

func (o *Owner) fits(b *wirepb.OwnerPush) bool {
	addresses := 0
	for _, item := range b.Items {
		addresses += len(item.GetTo())
	}
	return len(b.Items) <= o.cfg.MaxItems && addresses <= o.cfg.MaxAddresses
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

// pushItem writes one item to its addresses and appends the results that are known at once. Those
// that wait for an acknowledgement are answered by themselves, later.
func (o *Owner) pushItem(results []*wirepb.OwnerPushResult, reply string, item *wirepb.OwnerPushItem, m *Message, now time.Time) []*wirepb.OwnerPushResult {
	var set *ackSet
	if m.Ack && reply != "" {
		set = newAckSet(&o.acks, func(numbers []uint32, acked bool) { o.replyAcks(reply, item.Item, numbers, acked) })
	}
	for i, a := range item.To {
		d, waiting := o.pushExact(a, m, set, uint32(i), now)
		if !waiting {
			results = append(results, &wirepb.OwnerPushResult{Item: item.Item, Index: uint32(i), Delivery: d})
		}
	}
	if set != nil {
		set.seal(m.AckUntil)
	}
	return results
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
	var acked func()
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
