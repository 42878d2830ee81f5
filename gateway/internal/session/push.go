package session

import (
	"errors"
	"hash/maphash"
	"slices"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/gateway/internal/owner"
	"github.com/switchyard-io/switchyard/gateway/internal/transport"
)

// delivery is what a session needs once it gets pushes that are held, acknowledged or named. Most
// sessions never have one.
type delivery struct {
	held []held        // until the client has its answer, at most MaxHeld; their message ids are among ids
	acks []ackWait     // ascending by seq, at most MaxAcks
	ids  []uint64      // hashes of message ids: a ring of at most MessageWindow
	next int           // the ring's oldest place, once it is full
	lost []owner.Acked // of pushes that were held and then could not be written, at most MaxHeld
}

type held struct {
	push  *owner.Message
	acked owner.Acked
}

type ackWait struct {
	seq   uint32
	until time.Time
	acked owner.Acked
}

func (s *Session) deliveryLocked() *delivery {
	if s.delivery == nil {
		s.delivery = &delivery{}
	}
	return s.delivery
}

// Push numbers a push and queues it for the client.
func (s *Session) Push(m *owner.Message, acked owner.Acked) owner.Status {
	if !m.Ack || s.conn.Codec() == frame.ELR2 { // ELR2 clients cannot acknowledge
		acked = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state {
	case active:
		return s.pushLocked(m, acked)
	case authenticating:
		return s.holdLocked(m, acked)
	}
	return owner.Stale
}

// holdLocked keeps a push that came after the commit and before the answer. From here on it is as
// good as queued for its sender: whether it is a repeat, and whether it is still to be written, was
// decided now, and the answer is near.
func (s *Session) holdLocked(m *owner.Message, acked owner.Acked) owner.Status {
	if s.duplicateLocked(m) {
		return owner.Queued
	}
	d := s.deliveryLocked()
	if len(d.held) >= s.host.cfg.MaxHeld {
		s.host.stats.overflows.Add(1)
		return owner.Overflow
	}
	d.held = append(d.held, held{m, acked})
	s.rememberLocked(m.MessageID)
	return queued(acked)
}

// releaseHeldLocked writes what is held after the answer. What the connection refuses is counted:
// its senders have their replies.
func (s *Session) releaseHeldLocked() {
	if s.delivery == nil {
		return
	}
	pushes := s.delivery.held
	s.delivery.held = nil
	for _, p := range pushes {
		if st := s.writeLocked(p.push, p.acked); st != queued(p.acked) {
			s.host.stats.unsent.Add(1)
			if p.acked != nil {
				s.delivery.lost = append(s.delivery.lost, p.acked)
			}
		}
	}
}

// dropLocked gives up what a session that ends, or does not come to be, has to deliver, and returns
// the waits that nothing can end well any more: to be told without the lock.
func (s *Session) dropLocked() []owner.Acked {
	d := s.delivery
	if d == nil {
		return nil
	}
	s.delivery = nil
	s.host.stats.unsent.Add(int64(len(d.held)))
	waits := d.lost
	for _, h := range d.held {
		if h.acked != nil {
			waits = append(waits, h.acked)
		}
	}
	for _, a := range d.acks {
		waits = append(waits, a.acked)
	}
	return waits
}

// giveUp tells those who wait that no acknowledgement will come.
func giveUp(waits []owner.Acked) {
	for _, acked := range waits {
		acked(false)
	}
}

func (s *Session) pushLocked(m *owner.Message, acked owner.Acked) owner.Status {
	if s.duplicateLocked(m) {
		return owner.Queued
	}
	st := s.writeLocked(m, acked)
	if st == queued(acked) {
		s.rememberLocked(m.MessageID)
	}
	return st
}

// writeLocked numbers a push and hands it to the connection.
func (s *Session) writeLocked(m *owner.Message, acked owner.Acked) owner.Status {
	if err := s.conn.SendPrepared(m.Prepared(s.conn.Codec()), s.pushSeq+1); err != nil {
		if errors.Is(err, transport.ErrOverflow) {
			s.host.stats.overflows.Add(1)
			return owner.Overflow
		}
		return owner.Stale
	}
	s.pushSeq++
	s.host.stats.pushes.Add(1)
	if acked != nil {
		s.awaitLocked(ackWait{s.pushSeq, m.AckUntil, acked})
	}
	return queued(acked)
}

func queued(acked owner.Acked) owner.Status {
	if acked != nil {
		return owner.Waiting
	}
	return owner.Queued
}

// duplicateLocked reports, and counts, a push whose message id is known.
func (s *Session) duplicateLocked(m *owner.Message) bool {
	if m.MessageID == "" || s.delivery == nil || !slices.Contains(s.delivery.ids, maphash.String(s.host.seed, m.MessageID)) {
		return false
	}
	s.host.stats.duplicates.Add(1)
	return true
}

func (s *Session) rememberLocked(id string) {
	if id == "" {
		return
	}
	d, window := s.deliveryLocked(), s.host.cfg.MessageWindow
	h := maphash.String(s.host.seed, id)
	if len(d.ids) < window {
		d.ids = append(d.ids, h)
		return
	}
	d.ids[d.next] = h
	d.next = (d.next + 1) % window
}

// awaitLocked notes who wants to hear of an acknowledgement. What nobody waits for any more goes,
// and over the bound the oldest.
func (s *Session) awaitLocked(w ackWait) {
	d, most := s.deliveryLocked(), s.host.cfg.MaxAcks
	if len(d.acks) > 0 && (len(d.acks) >= most || d.acks[0].until.Before(time.Now())) {
		now := time.Now()
		d.acks = slices.DeleteFunc(d.acks, func(a ackWait) bool { return a.until.Before(now) })
		if len(d.acks) >= most {
			d.acks = slices.Delete(d.acks, 0, 1)
		}
	}
	d.acks = append(d.acks, w)
}

// acknowledge reports each of the client's numbers that somebody waits for, once.
func (s *Session) acknowledge(seqs []uint32) {
	for _, acked := range s.takeAcks(seqs) {
		acked(true)
	}
}

func (s *Session) takeAcks(seqs []uint32) []owner.Acked {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.delivery == nil {
		return nil
	}
	var out []owner.Acked
	d := s.delivery
	for _, seq := range seqs {
		i, ok := slices.BinarySearchFunc(d.acks, seq, func(a ackWait, seq uint32) int { return int(int64(a.seq) - int64(seq)) })
		if ok {
			out = append(out, d.acks[i].acked)
			d.acks = slices.Delete(d.acks, i, i+1)
		}
	}
	if len(d.acks) == 0 {
		d.acks = nil
	}
	s.host.stats.acked.Add(int64(len(out)))
	return out
}
