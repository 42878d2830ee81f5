package directory

import "github.com/switchyard-io/switchyard/shared/identity"

// past remembers lives whose route went without their owner's doing, because the owner may still
// hold a socket: it was cut off, or is only silent. A tombstone cannot hold such a life back, for
// its owner hands out higher sequences meanwhile, and a clock cannot judge it.
//
// A life is lost with a silent owner, and may come back; once a new session has taken its place it
// is replaced, and is closed when its owner presents it again, even if the new session has ended by
// then (I1). It is forgotten when its owner unregisters it or makes it a new login, after
// Config.ReplacedTTL, or beyond Config.MaxTombstones, the oldest first.
type past struct {
	lives deadlines[life, *departure]
	lost  map[identity.UID]*departure // first of those that are not replaced, linked by next
}

// departure is what is known of a life that went.
type departure struct {
	life      life
	uid       identity.UID
	device    identity.Device
	seq       uint64
	connected int64
	replaced  bool
	next      *departure // of the same user, while lost
}

func departureOf(rec *record) *departure {
	return &departure{life: life{rec.session, rec.owner}, uid: rec.uid, device: rec.deviceIdentity(), seq: rec.seq, connected: rec.connected}
}

// add remembers a life; of more than limit the oldest goes. It returns how many went.
func (p *past) add(d *departure, at int64, limit int) (dropped int) {
	p.forget(d.life)
	if !d.replaced {
		if p.lost == nil {
			p.lost = make(map[identity.UID]*departure)
		}
		d.next = p.lost[d.uid]
		p.lost[d.uid] = d
	}
	p.lives.put(d.life, d, at)
	for p.lives.len() > limit {
		oldest, _, _ := p.lives.oldest()
		p.forget(oldest)
		dropped++
	}
	return dropped
}

// replaced reports whether the life's place was taken.
func (p *past) replaced(l life) bool {
	d, ok := p.lives.get(l)
	return ok && d.replaced
}

func (p *past) forget(l life) {
	d, ok := p.lives.get(l)
	if !ok {
		return
	}
	if !d.replaced {
		p.unlist(d)
	}
	p.lives.drop(l)
}

func (p *past) unlist(d *departure) {
	first := p.lost[d.uid]
	switch {
	case first != d:
		for e := first; e != nil; e = e.next {
			if e.next == d {
				e.next = d.next
				break
			}
		}
	case d.next != nil:
		p.lost[d.uid] = d.next
	default:
		if delete(p.lost, d.uid); len(p.lost) == 0 {
			p.lost = nil
		}
	}
	d.next = nil
}

// takePlace marks the lost lives of a user as replaced that taken says a new session stands for.
func (p *past) takePlace(uid identity.UID, at int64, taken func(*departure) bool) {
	for d := p.lost[uid]; d != nil; {
		next := d.next
		if taken(d) {
			p.unlist(d)
			d.replaced = true
			p.lives.put(d.life, d, at)
		}
		d = next
	}
}

// forgetUntil forgets what went at or before a time.
func (p *past) forgetUntil(at int64) {
	for {
		l, t, ok := p.lives.oldest()
		if !ok || t > at {
			return
		}
		p.forget(l)
	}
}
