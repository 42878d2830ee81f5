package owner

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// runGroups handles group pushes and syncs in the order of arrival until Stop.
func (o *Owner) runGroups() {
	var members []Session
	for {
		select {
		case msg := <-o.arrivals:
			if msg.Subject == subject.GatewaysGroupSync {
				o.onGroupSync(msg)
				continue
			}
			members = o.onGroupPush(msg, members[:0])
			clear(members) // keeps the room, not the sessions
		case <-o.quit:
			return
		}
	}
}

// onGroupPush writes a group's push to its members here. members is scratch space, and returned.
func (o *Owner) onGroupPush(msg *nats.Msg, members []Session) []Session {
	var req wirepb.GroupPush
	name, ok := subject.ParseGroup(msg.Subject)
	if err := req.UnmarshalVT(msg.Data); err != nil || !ok || req.Group != name {
		o.counts.malformed.Add(1)
		return members
	}
	now := time.Now()
	m, ok := o.message(req.Push, now)
	if !ok {
		o.counts.malformed.Add(1)
		return members
	}
	o.counts.groupPushes.Add(1)
	members = o.groups.members(members, name)
	p := &groupPush{owner: o, reply: msg.Reply, id: req.Id}
	if m.Ack && msg.Reply != "" {
		p.targets = make([]*wirepb.SessionResult, len(members))
		p.set = newAckSet(&o.acks, p.acked)
	}
	results := o.fanOut(p, m, members, now)
	p.send(results, false)
	if p.set != nil && p.set.seal(m.AckUntil) {
		o.waits.add(waitKey{msg.Reply, req.Id}, p.set)
	}
	return members
}

// fanOut pushes to each member and returns the results that are known at once.
func (o *Owner) fanOut(p *groupPush, m *Message, members []Session, now time.Time) []*wirepb.SessionResult {
	// Memory for all at once: three pieces, not three for each member.
	results := make([]*wirepb.SessionResult, 0, len(members))
	room, ids := make([]wirepb.SessionResult, len(members)), make([]identity.SessionID, len(members))
	for i, s := range members {
		ids[i] = s.ID()
		if m.excludes(ids[i]) {
			continue
		}
		r := &room[i]
		r.Uid, r.SessionId, r.GatewayId = string(s.UID()), ids[i][:], o.cfg.Gateway
		if p.set != nil {
			p.targets[i] = r // before its acknowledgement can come
		}
		d, waiting := o.pushTo(s, m, p.set, uint32(i), now)
		if waiting {
			continue
		}
		if d == wirepb.Delivery_DELIVERY_STALE {
			o.groups.LeaveAll(s) // it has ended, and its membership with it
			continue
		}
		if p.reply != "" {
			r.Delivery = d
			results = append(results, r)
		}
	}
	return results
}

// groupPush is one push to a group and what its sender is told.
type groupPush struct {
	owner   *Owner
	reply   string
	id      uint64
	set     *ackSet                 // nil unless acknowledgements are waited for
	targets []*wirepb.SessionResult // by number in set
}

// acked reports sessions whose wait has ended.
func (p *groupPush) acked(numbers []uint32, acked bool) {
	d := p.owner.ackDelivery(len(numbers), acked)
	results := make([]*wirepb.SessionResult, len(numbers))
	for i, n := range numbers {
		results[i] = p.targets[n] // each number is reported once, by one goroutine
		results[i].Delivery = d
	}
	p.send(results, false)
}

// send sends results in replies of bounded size; final adds the word that no more follow.
func (p *groupPush) send(results []*wirepb.SessionResult, final bool) {
	if p.reply == "" {
		return
	}
	for len(results) > 0 || final {
		n := min(len(results), maxResults)
		last := final && n == len(results)
		p.owner.publish(p.reply, &wirepb.GroupPushReply{
			Id: p.id, GatewayId: p.owner.cfg.Gateway, BootId: p.owner.cfg.Boot, Sessions: results[:n], Final: last,
		})
		results = results[n:]
		if last {
			return
		}
	}
}

// onGroupSync answers, once all is known that came of the group push before it, that nothing more
// follows. Every gateway answers, members or not.
func (o *Owner) onGroupSync(msg *nats.Msg) {
	var req wirepb.GroupSync
	if err := req.UnmarshalVT(msg.Data); err != nil || msg.Reply == "" {
		o.counts.malformed.Add(1)
		return
	}
	if o.late.Late(context.Background(), msg.Subject, req.DeadlineMs, time.Now()) {
		return
	}
	o.counts.groupSyncs.Add(1)
	final := &groupPush{owner: o, reply: msg.Reply, id: req.Id}
	o.waits.after(waitKey{msg.Reply, req.Id}, func() { final.send(nil, true) })
}

// waitKey names a group push: numbers are unique for an inbox.
type waitKey struct {
	reply string
	id    uint64
}

// groupWaits has the group pushes that wait for acknowledgements. Each has at least one open
// wait, so their number is bounded by that of the waits.
type groupWaits struct {
	mu     sync.Mutex
	pushes map[waitKey]*ackSet
}

func (w *groupWaits) add(k waitKey, s *ackSet) {
	w.mu.Lock()
	w.pushes[k] = s
	w.mu.Unlock()
	s.then(func() { w.remove(k) })
}

func (w *groupWaits) remove(k waitKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pushes, k)
}

// after calls f once the push waits for nothing any more; at once if it does not wait.
func (w *groupWaits) after(k waitKey, f func()) {
	w.mu.Lock()
	s := w.pushes[k]
	w.mu.Unlock()
	if s == nil {
		f()
		return
	}
	s.then(func() {
		w.remove(k)
		f()
	})
}
