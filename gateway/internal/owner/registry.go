package owner

import (
	"github.com/switchyard-io/switchyard/gateway/internal/registry"
	"github.com/switchyard-io/switchyard/shared/identity"
)

// FromRegistry presents a registry as Sessions.
func FromRegistry[H Session](r *registry.Registry[H]) Sessions { return registered[H]{r} }

type registered[H Session] struct{ registry *registry.Registry[H] }

func (s registered[H]) Exact(uid identity.UID, id identity.SessionID, seq uint64) (Session, bool) {
	e, ok := s.registry.Exact(uid, id, seq)
	if !ok {
		return nil, false
	}
	return e.Handle, true
}
