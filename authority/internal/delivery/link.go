package delivery

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// ackSpread is how far the deadlines of parcels in one batch may lie apart when they wait for
// acknowledgements: a batch waits as long as its last.
const ackSpread = 250 * time.Millisecond

// hungAfter is how long an owner answers none of Config.InFlight batches until Flush does without it,
// and flushPoll how often Flush looks. It is less than a slot's release may take, so that one owner
// that hangs does not cost the others their order.
const (
	hungAfter = time.Second
	flushPoll = 50 * time.Millisecond
)

// link is the queue to one owner.
type link struct {
	links   *Links
	owner   directory.Owner
	subject string

	mu        sync.Mutex
	queue     []Parcel
	bytes     int    // of queue
	put       uint64 // number of the last parcel that was queued
	sending   uint64 // number of the first parcel of the batch that is being sent; 0: none
	inflight  int    // batches without acknowledgement that wait for an answer
	acks      int    // parcels with acknowledgement that have no result, queued ones included
	running   bool
	forgotten bool // its owner was declared gone
	dead      bool // taken out of links: there may be another for the owner, or they are closed
	flushes   []flush
	blocked   time.Time // since when the queue waits for an answer; says nothing while it need not

	timer *time.Timer // of overdue, while the queue must wait
	wakes time.Time   // when it fires; zero: not armed
}

// flush waits until all parcels up to a number have left.
type flush struct {
	upTo uint64
	done chan struct{}
}

// send queues a parcel or refuses it; false: the link is dead.
func (k *link) send(p Parcel) bool {
	cfg := &k.links.cfg
	k.mu.Lock()
	if k.dead {
		k.mu.Unlock()
		return false
	}
	size := p.addressBytes()
	if n := len(k.queue); n == 0 || k.queue[n-1].Push != p.Push {
		size += pushBytes(p.Push)
	}
	if len(k.queue) >= cfg.QueueParcels || (k.bytes+size > cfg.QueueBytes && len(k.queue) > 0) ||
		p.Push.Ack && (k.acks >= cfg.AckParcels || !k.links.takeAck()) {
		k.mu.Unlock()
		k.links.overflow(&p)
		return true
	}
	if p.Push.Ack {
		k.acks++
	}
	k.put++
	p.number = k.put
	k.queue = append(k.queue, p)
	k.bytes += size
	k.wakeLocked()
	if !k.running && (k.wakes.IsZero() || p.Deadline.Before(k.wakes)) {
		k.armLocked(p.Deadline)
	}
	k.mu.Unlock()
	return true
}

// takeAck takes a place for a parcel with acknowledgement; false: there is none.
func (l *Links) takeAck() bool {
	if l.acks.Add(1) <= int64(l.cfg.AllAckParcels) {
		return true
	}
	l.acks.Add(-1)
	return false
}

// blockedLocked reports whether the front of the queue must wait for an answer.
func (k *link) blockedLocked() bool {
	return !k.queue[0].Push.Ack && k.inflight >= k.links.cfg.InFlight
}

// wakeLocked has the queue emptied, unless that happens already or must wait for answers.
func (k *link) wakeLocked() {
	if k.dead || k.running || len(k.queue) == 0 || k.blockedLocked() {
		return
	}
	k.running = true
	k.links.wg.Go(k.run)
}

// run sends batches until the queue is empty or must wait. One at a time: the order of the queue is
// the order on the wire (I11).
func (k *link) run() {
	w := writers.Get().(*writer)
	defer writers.Put(w)
	for more := true; more; {
		more = k.step(w)
	}
}

// step settles what is late at the front and sends one batch; false: nothing can be sent.
func (k *link) step(w *writer) bool {
	var b *batch
	k.mu.Lock()
	k.sending = 0
	now, n := time.Now(), 0
	for n < len(k.queue) && k.queue[n].expired(now) {
		n++
	}
	late := k.cutLocked(n)
	switch {
	case len(k.queue) == 0:
		k.running = false
	case k.blockedLocked() && k.dead: // nothing wakes it again
		k.running = false
		late = append(late, k.cutLocked(len(k.queue))...)
	case k.blockedLocked():
		k.running, k.blocked = false, now
		k.armLocked(time.Time{})
	default:
		b = &batch{link: k, parcels: k.cutLocked(k.nextLocked(now))}
		b.ack = b.parcels[0].Push.Ack
		k.sending = b.parcels[0].number
		if !b.ack {
			k.inflight++
		}
	}
	k.tellLocked()
	k.mu.Unlock()
	k.lapse(late)
	if b == nil {
		k.retire()
		return false
	}
	b.send(w)
	return true
}

// nextLocked is the number of parcels of the next batch.
func (k *link) nextLocked(now time.Time) (n int) {
	cfg := &k.links.cfg
	first, size := &k.queue[0], 0
	for n < len(k.queue) && n < cfg.BatchParcels {
		p := &k.queue[n]
		add := p.addressBytes()
		if n == 0 || k.queue[n-1].Push != p.Push {
			add += pushBytes(p.Push)
		}
		if n > 0 && (size+add > cfg.BatchBytes || p.Push.Ack != first.Push.Ack || p.expired(now) ||
			p.Push.Ack && apart(p.Deadline, first.Deadline)) {
			break
		}
		size += add
		n++
	}
	return n
}

// cutLocked takes n parcels off the front of the queue.
func (k *link) cutLocked(n int) []Parcel {
	if n == 0 {
		return nil
	}
	cut := k.queue[:n:n]
	k.queue = k.queue[n:]
	k.bytes -= queueBytes(cut)
	if len(k.queue) == 0 {
		k.queue, k.bytes = nil, 0
	} else if k.queue[0].Push == cut[n-1].Push {
		k.bytes += pushBytes(k.queue[0].Push) // the rest of a push that was cut in two carries it again
	}
	return cut
}

// queueBytes is what parcels take in a queue, neighbours of one push sharing it.
func queueBytes(ps []Parcel) (size int) {
	for i := range ps {
		size += ps[i].addressBytes()
		if i == 0 || ps[i-1].Push != ps[i].Push {
			size += pushBytes(ps[i].Push)
		}
	}
	return size
}

func apart(a, b time.Time) bool { return a.Sub(b).Abs() > ackSpread }

// armLocked has overdue called at a time, or when the first parcel's time is over (zero); a timer
// that is set for earlier stays.
func (k *link) armLocked(at time.Time) {
	if at.IsZero() {
		if !k.wakes.IsZero() {
			return
		}
		for i := range k.queue {
			if d := k.queue[i].Deadline; at.IsZero() || d.Before(at) {
				at = d
			}
		}
	}
	k.wakes = at
	if k.timer == nil {
		k.timer = time.AfterFunc(time.Until(at), k.overdue)
		return
	}
	k.timer.Reset(time.Until(at))
}

// overdue ends the wait of parcels whose time is over while the queue waits for answers.
func (k *link) overdue() {
	k.mu.Lock()
	k.wakes = time.Time{}
	if k.running { // it looks itself
		k.mu.Unlock()
		return
	}
	var late, rest []Parcel
	now := time.Now()
	for _, p := range k.queue {
		if p.expired(now) {
			late = append(late, p)
		} else {
			rest = append(rest, p)
		}
	}
	if len(late) > 0 {
		k.queue, k.bytes = rest, queueBytes(rest)
	}
	if len(k.queue) > 0 && k.blockedLocked() {
		k.armLocked(time.Time{})
	}
	k.wakeLocked()
	k.tellLocked()
	k.mu.Unlock()
	k.lapse(late)
	k.retire()
}

// lapse settles parcels that were not sent in their time.
func (k *link) lapse(late []Parcel) {
	acks := 0
	for i := range late {
		p := &late[i]
		if p.Push.Ack {
			acks++
		}
		k.links.stats.count(wirepb.Delivery_DELIVERY_NO_ANSWER)
		p.Receipt.Delivered(p.Index, wirepb.Delivery_DELIVERY_NO_ANSWER)
	}
	k.settled(acks)
}

// settled notes that n parcels with acknowledgement have their results.
func (k *link) settled(n int) {
	if n == 0 {
		return
	}
	k.links.acks.Add(int64(-n))
	k.mu.Lock()
	k.acks -= n
	k.mu.Unlock()
}

// answered makes room for another batch.
func (k *link) answered() {
	k.mu.Lock()
	k.inflight--
	k.wakeLocked()
	k.mu.Unlock()
}

func (k *link) forget() {
	k.mu.Lock()
	k.forgotten = true
	k.mu.Unlock()
}

// close ends the link: it does not start to send after it. What waits for answers is settled; what
// is being sent goes on until the queue is empty or must wait, and then is settled too.
func (k *link) close() {
	var left []Parcel
	k.mu.Lock()
	k.dead = true
	if k.timer != nil {
		k.timer.Stop()
	}
	if !k.running {
		left = k.cutLocked(len(k.queue))
		k.tellLocked()
	}
	k.mu.Unlock()
	k.lapse(left)
}

// retire takes the link out when it is empty and its owner is gone.
func (k *link) retire() {
	k.mu.Lock()
	over := k.forgotten
	k.mu.Unlock()
	if over || k.links.cfg.Gone(k.owner) {
		k.links.drop(k)
	}
}

// flushed is closed when everything has left that is queued now; nil: it has.
func (k *link) flushed() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.leftLocked(k.put) {
		return nil
	}
	f := flush{k.put, make(chan struct{})}
	k.flushes = append(k.flushes, f)
	return f.done
}

// hangs reports whether the queue has waited for an answer for so long that its owner counts as hung.
func (k *link) hangs(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.running && len(k.queue) > 0 && k.blockedLocked() && now.Sub(k.blocked) > hungAfter
}

// await waits for a flush, unless the owner hangs.
func (k *link) await(ctx context.Context, left <-chan struct{}, poll <-chan time.Time) error {
	for !k.hangs(time.Now()) {
		select {
		case <-left:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-poll:
		}
	}
	return nil
}

// leftLocked reports whether all parcels up to a number have left.
func (k *link) leftLocked(upTo uint64) bool {
	return (len(k.queue) == 0 || k.queue[0].number > upTo) && (k.sending == 0 || k.sending > upTo)
}

// tellLocked ends the flushes that are done.
func (k *link) tellLocked() {
	k.flushes = slices.DeleteFunc(k.flushes, func(f flush) bool {
		done := k.leftLocked(f.upTo)
		if done {
			close(f.done)
		}
		return done
	})
}
