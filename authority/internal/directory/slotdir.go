package directory

import (
	"unique"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
)

const maxRecords = 1 << 30

type ownerKey = unique.Handle[Owner]

func intern(o Owner) ownerKey { return unique.Make(o) }

type slotDir struct {
	target     slot.Target
	candidates candidates
	activity   activityIndex
	gone       deadlines[ownerKey, struct{}]
}

type candidates struct{}

func (c *candidates) remove(uint64) {}

type activityIndex struct{ floor uint32 }

func newSlotDir(*Config, slot.Target, []Owner, instant) *slotDir { return &slotDir{} }
func (s *slotDir) fits(*slot.Target) bool                       { return false }
func (s *slotDir) revise(uint64)                                {}
func (s *slotDir) register(*Route, Policy, instant) (Registration, error) {
	return Registration{}, nil
}
func (s *slotDir) commit(uint64, identity.SessionID, []identity.SessionID, instant, *Effects) error {
	return nil
}
func (s *slotDir) unregister(Owner, []SessionSeq, instant, *Effects) {}
func (s *slotDir) touch(_ Owner, _ []SessionSeq, _ instant, m []identity.SessionID) ([]identity.SessionID, error) {
	return m, nil
}
func (s *slotDir) restore(_ Owner, _ []Route, _ bool, _ instant, _ *Effects, c []identity.SessionID) ([]identity.SessionID, error) {
	return c, nil
}
func (s *slotDir) reported(ownerKey, instant, *Effects)          {}
func (s *slotDir) ownerGone(ownerKey, instant, *Effects) int     { return 0 }
func (s *slotDir) removeExact(*Route, instant, *Effects) bool    { return false }
func (s *slotDir) lookup([]identity.UID, *Found)                 {}
func (s *slotDir) lookupSessions([]identity.SessionID, *Found)   {}
func (s *slotDir) nextDue() int64                                { return 0 }
func (s *slotDir) expire(instant, int, *Effects) int             { return 0 }
func (s *slotDir) stats() SlotStats                              { return SlotStats{} }
