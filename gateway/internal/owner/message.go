package owner

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// Message is one push on its way to any number of sessions. Its fields are read-only. It is safe
// for concurrent use.
type Message struct {
	Route     uint32
	Payload   []byte
	Base64    bool
	Ack       bool
	AckUntil  time.Time // zero unless Ack
	MessageID string
	Expires   time.Time // zero: never
	Exclude   []identity.SessionID

	prepared [frame.Codecs]atomic.Pointer[frame.Prepared]
}

// Prepared is the push as all sessions of a codec get it, but for their numbering. It is encoded
// when the first of them asks.
func (m *Message) Prepared(c frame.Codec) *frame.Prepared {
	p := &m.prepared[c]
	if ready := p.Load(); ready != nil {
		return ready
	}
	p.CompareAndSwap(nil, frame.Prepare(c, m.Route, m.Payload, m.Base64, m.Ack))
	return p.Load()
}

// expired reports whether the push is too late to be written.
func (m *Message) expired(now time.Time) bool { return !m.Expires.IsZero() && !now.Before(m.Expires) }

func (m *Message) excludes(id identity.SessionID) bool { return slices.Contains(m.Exclude, id) }

// message reads a push; false when it is missing. Ack deadlines are cut to MaxAckWait.
func (o *Owner) message(p *wirepb.Push, now time.Time) (*Message, bool) {
	if p == nil {
		return nil, false
	}
	m := &Message{
		Route: p.Route, Payload: p.Payload, Base64: p.Base64, Ack: p.Ack, MessageID: p.MessageId,
	}
	if p.ExpiresMs != 0 {
		m.Expires = time.UnixMilli(p.ExpiresMs)
	}
	if m.Ack {
		m.AckUntil = now.Add(defaultAckWait)
		if p.AckDeadlineMs != 0 {
			m.AckUntil = time.UnixMilli(p.AckDeadlineMs)
		}
		if last := now.Add(o.cfg.MaxAckWait); m.AckUntil.After(last) {
			m.AckUntil = last
		}
	}
	for _, b := range p.ExcludeSessions {
		if id, err := identity.SessionIDFromBytes(b); err == nil {
			m.Exclude = append(m.Exclude, id)
		}
	}
	return m, true
}
