package rpc

import (
	"errors"

	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/wire"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// status turns the error of a call about t into its status, and the target that the caller should
// go to, where one is known.
func (s *Server) status(t slot.Target, err error) (wirepb.Status, *wirepb.Target) {
	var stale *directory.StaleTarget
	switch {
	case err == nil:
		return wirepb.Status_STATUS_OK, nil
	case errors.As(err, &stale):
		if t.Newer(stale.Current) { // the caller knows more than this node
			return wirepb.Status_STATUS_NOT_LEADER, nil
		}
		return wirepb.Status_STATUS_STALE_TARGET, wire.Target(stale.Current)
	case errors.Is(err, directory.ErrNotLeader):
		if known, ok := s.known(t.Hash); ok && known.Newer(t) {
			return wirepb.Status_STATUS_NOT_LEADER, wire.Target(known)
		}
		return wirepb.Status_STATUS_NOT_LEADER, nil
	case errors.Is(err, directory.ErrExpired):
		return wirepb.Status_STATUS_EXPIRED, nil
	case errors.Is(err, directory.ErrFenced):
		return wirepb.Status_STATUS_FENCED, nil
	case errors.Is(err, directory.ErrDuplicate):
		return wirepb.Status_STATUS_DUPLICATE, nil
	case errors.Is(err, directory.ErrFull):
		return wirepb.Status_STATUS_QUEUE_FULL, nil
	case errors.Is(err, directory.ErrInvalid), errors.Is(err, wire.ErrTarget):
		return wirepb.Status_STATUS_INVALID, nil
	default:
		return wirepb.Status_STATUS_UNAVAILABLE, nil
	}
}

// silent reports whether a call on a slot's subject must get no answer: the node that leads hears
// it as well, and its answer is the one that counts.
func silent(s wirepb.Status) bool { return s == wirepb.Status_STATUS_NOT_LEADER }
