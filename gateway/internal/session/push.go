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
	held []held    // until the client has its answer, at most MaxHeld
	acks []ackWait // ascending by seq, at most MaxAcks
	ids  []uint64  // hashes of message ids: a ring of at most MessageWindow
	next int       // the ring's oldest place, once it is full
}

type held struct {
	push  *owner.Message
	acked func()
}

type ackWait struct {
	seq   uint32
	until time.Time
	acked func()
}

func (s *Session) deliveryLocked() *delivery {
	if s.delivery == nil {
		s.delivery = &delivery{}
	}
	return s.delivery
}

// Push numbers a push and queues it for the client.
func (s *Session) Push(m *owner.Message, acked func()) owner.Status {
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

// holdLocked keeps a push that came after the commit and before the answer.
func (s *Session) holdLocked(m *owner.Message, acked func()) owner.Status {
	d := s.deliveryLocked()
	if len(d.held) >= MaxHeld {
		s.host.stats.overflows.Add(1)
		return owner.Overflow
	}
	d.held = append(d.held, held{m, acked})
	return queued(acked)
}

func (s *Session) releaseHeldLocked() {
	if s.delivery == nil {
		return
	}
	pushes := s.delivery.held
	s.delivery.held = nil
	for _, p := range pushes {
		if p.push.Expires.IsZero() || time.Now().Before(p.push.Expires) {
			s.pushLocked(p.push, p.acked)
		}
	}
}

func (s *Session) pushLocked(m *owner.Message, acked func()) owner.Status {
	if m.MessageID != "" && s.repeatedLocked(m.MessageID) {
		s.host.stats.duplicates.Add(1)
		return owner.Queued
	}
	if err := s.conn.SendPrepared(m.Prepared(s.conn.Codec()), s.pushSeq+1); err != nil {
		if errors.Is(err, transport.ErrOverflow) {
			s.host.stats.overflows.Add(1)
			return owner.Overflow
		}
		return owner.Stale
	}
	s.pushSeq++
	s.host.stats.pushes.Add(1)
	if m.MessageID != "" {
		s.rememberLocked(m.MessageID)
	}
	if acked != nil {
		s.awaitLocked(ackWait{s.pushSeq, m.AckUntil, acked})
	}
	return queued(acked)
}

func queued(acked func()) owner.Status {
	if acked != nil {
		return owner.Waiting
	}
	return owner.Queued
}

func (s *Session) repeatedLocked(id string) bool {
	return s.delivery != nil && slices.Contains(s.delivery.ids, maphash.String(s.host.seed, id))
}

func (s *Session) rememberLocked(id string) {
	d := s.deliveryLocked()
	h := maphash.String(s.host.seed, id)
	if len(d.ids) < MessageWindow {
		d.ids = append(d.ids, h)
		return
	}
	d.ids[d.next] = h
	d.next = (d.next + 1) % MessageWindow
}

// awaitLocked notes who wants to hear of an acknowledgement. What nobody waits for any more goes,
// and over the bound the oldest.
func (s *Session) awaitLocked(w ackWait) {
	d := s.deliveryLocked()
	if len(d.acks) > 0 && (len(d.acks) >= MaxAcks || d.acks[0].until.Before(time.Now())) {
		now := time.Now()
		d.acks = slices.DeleteFunc(d.acks, func(a ackWait) bool { return a.until.Before(now) })
		if len(d.acks) >= MaxAcks {
			d.acks = slices.Delete(d.acks, 0, 1)
		}
	}
	d.acks = append(d.acks, w)
}

// acknowledge reports each of the client's numbers that somebody waits for, once.
func (s *Session) acknowledge(seqs []uint32) {
	for _, acked := range s.takeAcks(seqs) {
		acked()
	}
}

func (s *Session) takeAcks(seqs []uint32) []func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.delivery == nil {
		return nil
	}
	var out []func()
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
