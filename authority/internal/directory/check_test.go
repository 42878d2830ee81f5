package directory

import "fmt"

// check verifies that a slot's indexes agree with each other.
func (s *slotDir) check() error {
	x := &s.routes
	if len(x.bySession) != x.len() {
		return fmt.Errorf("%d sessions, %d records", len(x.bySession), x.len())
	}
	if err := x.checkActivity(); err != nil {
		return err
	}
	n := 0
	for u, r := range x.byUser {
		for ; r != 0; r = x.slab.at(r).sibling {
			rec := x.slab.at(r)
			if rec.uid != u || x.bySession[rec.session] != r {
				return fmt.Errorf("user list of %s has a wrong record", u)
			}
			n++
		}
	}
	if n != x.len() {
		return fmt.Errorf("%d records in user lists, %d in all", n, x.len())
	}
	n = 0
	for o, r := range x.byOwner {
		prev := ref(0)
		for ; r != 0; r = x.slab.at(r).ownerNext {
			rec := x.slab.at(r)
			if rec.owner != o || rec.ownerPrev != prev {
				return fmt.Errorf("owner list of %v is broken", o.Value())
			}
			prev = r
			n++
		}
	}
	if n != x.len() {
		return fmt.Errorf("%d records in owner lists, %d in all", n, x.len())
	}
	if c := &s.candidates; len(c.bySession) != c.pending.len() {
		return fmt.Errorf("%d candidates by session, %d in all", len(c.bySession), c.pending.len())
	}
	return checkQueue(&s.candidates.pending, checkQueue(&s.tombstones.deadlines, checkQueue(&s.gone.set, nil)))
}

func (x *index) checkActivity() error {
	n, prev, second := 0, ref(0), uint32(0)
	for r := x.activity.oldest; r != 0; r = x.slab.at(r).newer {
		rec := x.slab.at(r)
		if rec.older != prev || rec.second < second {
			return fmt.Errorf("activity list is broken at record %d", r)
		}
		prev, second = r, rec.second
		n++
	}
	if n != x.len() || x.activity.newest != prev {
		return fmt.Errorf("%d records in the activity list, %d in all", n, x.len())
	}
	return nil
}

func checkQueue[K comparable, V any](d *deadlines[K, V], err error) error {
	if err != nil {
		return err
	}
	if len(d.queue) > 2*d.len()+64+keptQueue {
		return fmt.Errorf("queue of %d for %d members", len(d.queue), d.len())
	}
	found := map[K]bool{}
	for _, e := range d.queue[d.head:] {
		if m, ok := d.members[e.key]; ok && m.at == e.at {
			found[e.key] = true
		}
	}
	if len(found) != d.len() {
		return fmt.Errorf("%d members in the queue, %d in all", len(found), d.len())
	}
	return nil
}

// check verifies that the lives that are lost, and no others, are listed by user.
func (p *past) check() error {
	listed := 0
	for uid, first := range p.lost {
		for d := first; d != nil; d = d.next {
			if known, ok := p.lives.get(d.life); !ok || known != d || d.replaced || d.uid != uid {
				return fmt.Errorf("lost list of %s has a wrong life", uid)
			}
			listed++
		}
	}
	for _, m := range p.lives.members {
		if !m.value.replaced {
			listed--
		}
	}
	if listed != 0 {
		return fmt.Errorf("%d lives too many in the lost lists", listed)
	}
	return checkQueue(&p.lives, nil)
}
