package slot

import (
	"fmt"

	"github.com/switchyard-io/switchyard/shared/identity"
)

// Count is the number of hash slots of every cluster.
const Count = 256

// Hash is a hash slot, 0..255.
type Hash uint8

// ID is a logical slot, 0..Layout.Logical-1.
type ID uint16

// FNV-1a, 32 bit (http://www.isthe.com/chongo/tech/comp/fnv/).
const (
	fnvOffset uint32 = 2166136261
	fnvPrime  uint32 = 16777619
)

// Of returns the hash slot of a user: FNV-1a 32 over the bytes of region, realm and user without
// separators, modulo 256. It equals the NATS server's partition(256,1,2,3) over these tokens.
func Of(region, realm, user string) Hash {
	return Hash(fnv1a(fnv1a(fnv1a(fnvOffset, region), realm), user) % Count)
}

// OfUID is Of for a joined uid; it allocates nothing.
func OfUID(u identity.UID) Hash {
	h, slashes, i := fnvOffset, 0, 0
	for ; i < len(u) && slashes < 2; i++ {
		if u[i] == '/' {
			slashes++
			continue
		}
		h = (h ^ uint32(u[i])) * fnvPrime
	}
	return Hash(fnv1a(h, string(u[i:])) % Count)
}

// fnv1a takes four bytes a turn: a batch of lookups spends much of its time here.
func fnv1a(h uint32, s string) uint32 {
	for ; len(s) >= 4; s = s[4:] {
		h = (h ^ uint32(s[0])) * fnvPrime
		h = (h ^ uint32(s[1])) * fnvPrime
		h = (h ^ uint32(s[2])) * fnvPrime
		h = (h ^ uint32(s[3])) * fnvPrime
	}
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * fnvPrime
	}
	return h
}

// DefaultLogical is the default number of logical slots.
const DefaultLogical = 32

// Layout groups hash slots in logical slots. It is stored once for a cluster; a process whose
// layout differs refuses to start.
type Layout struct {
	Logical     int    `json:"logical_slots"`
	ConfigEpoch uint64 `json:"config_epoch"`
}

// Validate reports a count outside 1..256 or an epoch of 0.
func (l Layout) Validate() error {
	if l.Logical < 1 || l.Logical > Count {
		return fmt.Errorf("logical slots: %d is not in 1..%d", l.Logical, Count)
	}
	if l.ConfigEpoch == 0 {
		return fmt.Errorf("config epoch: 0 is not a valid epoch")
	}
	return nil
}

// ID returns the logical slot of a hash slot.
func (l Layout) ID(h Hash) ID { return ID(int(h) % l.Logical) }

// Hashes returns the hash slots of a logical slot, ascending.
func (l Layout) Hashes(id ID) []Hash {
	var out []Hash
	for h := int(id); h < Count; h += l.Logical {
		out = append(out, Hash(h))
	}
	return out
}
