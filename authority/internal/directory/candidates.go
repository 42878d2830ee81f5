package directory

import "github.com/switchyard-io/switchyard/shared/identity"

// candidate is a registered session that nobody sees yet. Candidates do not stand in each
// other's way: a replayed ticket's candidate must harm nobody (I5); Commit decides.
type candidate struct {
	route  Route
	owner  ownerKey
	policy Policy
}

// candidates are the pending sessions of a slot, by number and by session, oldest first.
type candidates struct {
	last      uint64 // number of the last one made; they are not used again within a term
	pending   deadlines[uint64, *candidate]
	bySession map[identity.SessionID]uint64
}

func (c *candidates) add(n *candidate, at int64) uint64 {
	if c.bySession == nil {
		c.bySession = make(map[identity.SessionID]uint64)
	}
	c.last++
	c.pending.put(c.last, n, at)
	c.bySession[n.route.Session] = c.last
	return c.last
}

func (c *candidates) remove(number uint64) {
	n, ok := c.pending.get(number)
	if !ok {
		return
	}
	c.pending.drop(number)
	delete(c.bySession, n.route.Session)
	if c.pending.members == nil {
		c.bySession = nil
	}
}

// removeUntil removes all made at or before a time and returns how many.
func (c *candidates) removeUntil(at int64) (n int) {
	for {
		number, made, ok := c.pending.oldest()
		if !ok || made > at {
			return n
		}
		c.remove(number)
		n++
	}
}

// removeOwned removes all candidates of an owner.
func (c *candidates) removeOwned(owner ownerKey) {
	for number, m := range c.pending.members {
		if m.value.owner == owner {
			c.remove(number)
		}
	}
}
