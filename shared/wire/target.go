package wire

import (
	"errors"
	"math"

	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// ErrTarget says that a target is missing or names no slot.
var ErrTarget = errors.New("wire: no valid target")

// Target is t for a call.
func Target(t slot.Target) *wirepb.Target {
	return &wirepb.Target{
		HashSlot: uint32(t.Hash), SlotId: uint32(t.ID), LeaderNode: t.LeaderNode, LeaderBoot: t.LeaderBoot,
		LeaderTerm: t.Term, ConfigEpoch: t.ConfigEpoch, Revision: t.Revision,
	}
}

// ParseTarget reads what Target makes.
func ParseTarget(p *wirepb.Target) (slot.Target, error) {
	if p == nil || p.HashSlot >= slot.Count || p.SlotId > math.MaxUint16 {
		return slot.Target{}, ErrTarget
	}
	return slot.Target{
		Hash: slot.Hash(p.HashSlot), ID: slot.ID(p.SlotId), LeaderNode: p.LeaderNode, LeaderBoot: p.LeaderBoot,
		Term: p.LeaderTerm, ConfigEpoch: p.ConfigEpoch, Revision: p.Revision,
	}, nil
}
