package presence

import (
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/registry"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
)

// FromRegistry presents a registry as Sessions. replaced ends a session that lost to a newer one.
func FromRegistry[H any](r *registry.Registry[H], replaced func(H)) Sessions {
	return &registered[H]{r, replaced}
}

type registered[H any] struct {
	registry *registry.Registry[H]
	replaced func(H)
}

func (s *registered[H]) InSlot(dst []Record, h slot.Hash) []Record {
	return appendRecords(dst, s.registry.Restorable(h, nil))
}

func (s *registered[H]) Dirty(dst []Record, limit int) []Record {
	return appendRecords(dst, s.registry.Drain(limit, nil))
}

func appendRecords[H any](dst []Record, from []registry.Record[H]) []Record {
	for _, r := range from {
		dst = append(dst, RecordOf(r))
	}
	return dst
}

// RecordOf is a registry record as presence tells it to leaders.
func RecordOf[H any](r registry.Record[H]) Record {
	return Record{
		UID: r.UID, Session: r.ID, Device: r.Device, Listener: r.Listener, OwnerSeq: r.Seq,
		ConnectedAt: r.ConnectedAt, LastActive: time.UnixMilli(r.LastActive),
	}
}

func (s *registered[H]) Requeue(id identity.SessionID) {
	if e, ok := s.registry.Lookup(id); ok {
		s.registry.Requeue(e)
	}
}

func (s *registered[H]) Active(id identity.SessionID) (Record, bool) {
	e, ok := s.registry.Lookup(id)
	if !ok || s.registry.State(e) != registry.Active {
		return Record{}, false
	}
	r, ok := s.registry.Stamp(e)
	if !ok {
		return Record{}, false
	}
	return RecordOf(r), true
}

func (s *registered[H]) Replaced(id identity.SessionID) {
	if e, ok := s.registry.Lookup(id); ok {
		s.replaced(e.Handle)
	}
}
