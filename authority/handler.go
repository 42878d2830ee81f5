package authority

import (
	"context"
	"errors"
	"time"

	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/shared/leadership"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/membership"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// tick is the time between two looks at what is due.
const tick = 50 * time.Millisecond

// flushGrace bounds the connection's flush when the time for a slot's release is over.
const flushGrace = 250 * time.Millisecond

// Acquired opens a slot: the directory first, then the subscriptions, so that whoever is heard is
// served. A new term begins empty and waits for every gateway that lives.
func (p *parts) Acquired(id slot.ID, e leadership.Entry, fresh bool) {
	p.opening.Lock()
	defer p.opening.Unlock()
	p.openLocked(id, e, fresh)
}

func (p *parts) openLocked(id slot.ID, e leadership.Entry, fresh bool) {
	p.membership.Lock() // a gateway that goes now is either not awaited, or taken out afterwards
	var awaited []directory.Owner
	for _, n := range p.tracker.Live(lifecycle.Gateway) {
		awaited = append(awaited, directory.Owner{Gateway: n.ID, Boot: n.Boot})
	}
	err := p.leader.Open(id, e, fresh, awaited, time.Now())
	p.membership.Unlock()
	if err == nil {
		err = p.server.Open(id)
	}
	delete(p.failed, id)
	if err != nil {
		p.authority.log.Error("slot not opened, trying again", "slot", id, "term", e.Term, "error", err)
		p.failed[id] = e
	}
}

// Releasing lets the calls finish that have arrived, before the slot is given away. Their pushes leave
// before those that the next leader takes (I11).
func (p *parts) Releasing(ctx context.Context, id slot.ID, _ leadership.Entry, _ leadership.Owner) {
	err := p.server.Quiesce(ctx, id)
	if err == nil {
		err = p.links.Flush(ctx)
	}
	if ctx.Err() != nil { // what has left must arrive before what the next leader sends all the same
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), flushGrace)
		defer cancel()
	}
	if err = errors.Join(err, p.conns.Data.FlushWithContext(ctx)); err != nil {
		p.authority.log.Warn("slot released before all its calls were served", "slot", id, "error", err)
	}
}

// Lost closes a slot.
func (p *parts) Lost(id slot.ID, _ leadership.Loss) {
	p.opening.Lock()
	defer p.opening.Unlock()
	delete(p.failed, id)
	p.server.Close(id)
	p.leader.Close(id)
}

// retry opens again what could not be opened.
func (p *parts) retry() {
	p.opening.Lock()
	defer p.opening.Unlock()
	for id, e := range p.failed {
		if held, ok := p.engine.Held(id); ok && held == e {
			p.openLocked(id, e, false)
		}
	}
}

// memberChanged hears the tracker: a gateway life that is gone takes its routes along (I8), and one
// that is heard again is asked for them.
func (p *parts) memberChanged(ev membership.Event) {
	if ev.Node.Service != lifecycle.Gateway {
		return
	}
	o := directory.Owner{Gateway: ev.Node.ID, Boot: ev.Node.Boot}
	p.membership.Lock()
	defer p.membership.Unlock()
	switch ev.Kind {
	case membership.Left:
		p.comebacks.left(o)
		n := p.leader.OwnerGone(o, time.Now())
		p.authority.log.Info("gateway gone", "gateway", o.Gateway, "boot", o.Boot, "reason", string(ev.Reason), "routes", n)
	case membership.Joined:
		p.leader.OwnerBack(o)
		if p.holdsAny() { // only who led may have dropped its routes; the next beacon tells it
			p.comebacks.heard(o, ev.Beacon.GetSequence(), time.Now())
		}
	}
}

// holdsAny reports whether a slot is open here.
func (p *parts) holdsAny() bool {
	for h := range slot.Count {
		if _, open := p.leader.Directory().Target(slot.Hash(h)); open {
			return true
		}
	}
	return false
}

// ticks does what is due until leadership ends.
func (p *parts) ticks() {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			p.leader.Tick(now)
			p.retry()
			if !p.authority.complete.Load() && p.allLed() {
				p.authority.complete.Store(true)
			}
		case <-p.lead.ctx.Done():
			return
		}
	}
}

// allLed reports whether every slot of the cluster has a leader that has finished its rebuild.
func (p *parts) allLed() bool {
	snap := p.table.Snapshot()
	for id := range slot.ID(snap.Layout().Logical) {
		load, known := p.table.Load(id)
		if !snap.Entry(id).Led() || !known || load.Rebuilding {
			return false
		}
	}
	return true
}

// pulse sends a beacon now.
func (p *parts) pulse() { p.announcer.Pulse() }

// beacon fills in what this node is and holds.
func (p *parts) beacon(b *wirepb.Beacon) {
	b.State = p.authority.State()
	p.engine.Claims(b)
	p.comebacks.fill(b, time.Now())
	layout := p.table.Layout()
	for _, c := range b.Slots {
		for _, h := range layout.Hashes(slot.ID(c.SlotId)) {
			s := p.leader.Directory().SlotStats(h)
			c.Routes += uint64(s.Routes)
			c.Rebuilding = c.Rebuilding || s.Rebuilding || !s.Open
		}
	}
}
