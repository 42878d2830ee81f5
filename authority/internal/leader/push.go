package leader

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/authority/internal/delivery"
	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// Order is one push for users and sessions of one hash slot.
type Order struct {
	// Target is the leadership that the order is for; all users and sessions belong to its hash slot.
	Target   slot.Target
	Users    []identity.UID
	Sessions []identity.SessionID
	// Push is read until Done is called.
	Push *wirepb.Push
	// HoldUntil is how long the order may wait for the slot's rebuild, within Config.RebuildHold.
	HoldUntil time.Time
	// Header goes along to the owners (trace context); nil for none.
	Header nats.Header
	// Done is called once, from any goroutine, possibly before Push returns. It must not block.
	Done func(Outcome)
}

// Result is what became of an order at one session. Delivery is unspecified for a session named
// by id that cannot be decided about, and then UID and Gateway are empty.
type Result struct {
	UID      identity.UID
	Session  identity.SessionID
	Gateway  string
	Delivery wirepb.Delivery
}

// Outcome is what became of an order. With Err, nothing was sent to anybody: the error is one of
// Check, directory.ErrInvalid or a full queue.
type Outcome struct {
	Err      error
	Sessions []Result
	Offline  []identity.UID
	Unknown  []identity.UID
}

// job is an order on its way: the receipt of its parcels.
type job struct {
	leader *Leader
	order  Order
	out    Outcome
	routes []directory.Route // by index of a parcel: those of out.Sessions that were sent
	left   atomic.Int64      // parcels without result, and one while being sent
}

// Push takes an order. It does not block: results come with Done.
func (l *Leader) Push(o Order) {
	l.stats.Pushes.Add(1)
	j := &job{leader: l, order: o}
	s := &l.slots[o.Target.Hash]
	s.mu.Lock()
	if s.holdsLocked() || len(s.held) > 0 {
		full := len(s.held) >= l.cfg.MaxHeld
		if !full {
			s.held = append(s.held, j)
			l.held.Add(1)
			l.stats.Held.Add(1)
		}
		s.mu.Unlock()
		if full {
			l.stats.HoldOverflow.Add(1)
			j.refuse(errHeld)
		}
		return
	}
	err := j.send()
	s.mu.Unlock()
	j.sent(err)
}

// pass sends the held pushes of a hash slot from the front on while ready says so: order is kept
// (I11), so one that may still wait holds up those behind it.
func (l *Leader) pass(h slot.Hash, ready func(*job) bool) {
	s := &l.slots[h]
	var sent []*job
	var errs []error
	s.mu.Lock()
	for len(s.held) > 0 && ready(s.held[0]) {
		j := s.held[0]
		s.held = s.held[1:]
		sent = append(sent, j)
		errs = append(errs, j.send())
	}
	if len(s.held) == 0 {
		s.held = nil
	}
	s.mu.Unlock()
	l.held.Add(-int64(len(sent)))
	for i, j := range sent {
		j.sent(errs[i])
	}
}

var founds = sync.Pool{New: func() any { return new(directory.Found) }}

// send looks up and queues, under the line's mutex. The extra count in left keeps the order from
// finishing before sent is called without that mutex.
func (j *job) send() error {
	l, o := j.leader, &j.order
	if err := l.Check(o.Target); err != nil {
		return err
	}
	f := founds.Get().(*directory.Found)
	defer func() { f.Reset(); founds.Put(f) }()
	if err := l.dir.Lookup(o.Target, o.Users, f); err != nil {
		return err
	}
	if err := l.dir.LookupSessions(o.Target, o.Sessions, f); err != nil {
		return err
	}
	j.collect(f)
	j.left.Store(int64(len(j.routes)) + 1)
	deadline := l.answerBy(o.Push)
	for i := range j.routes {
		r := &j.routes[i]
		l.links.Send(r.Owner(), delivery.Parcel{
			Push: o.Push, UID: r.UID, Session: r.Session, Seq: r.OwnerSeq,
			Deadline: deadline, Header: o.Header, Receipt: j, Index: i,
		})
	}
	return nil
}

// ackMargin is how long after the end of an acknowledgement's time its owner may say so.
const ackMargin = 500 * time.Millisecond

// answerBy is when the owners' answers to a push are no longer waited for.
func (l *Leader) answerBy(p *wirepb.Push) time.Time {
	by := time.Now().Add(l.cfg.OwnerTimeout)
	if ack := time.UnixMilli(p.AckDeadlineMs).Add(ackMargin); p.Ack && ack.After(by) {
		by = ack
	}
	return by
}

// collect makes results and routes of what was found: each session once, and none that is excluded.
func (j *job) collect(f *directory.Found) {
	o := &j.order
	skip := make(sessionSet, 0, 8)
	for _, b := range o.Push.ExcludeSessions {
		if id, err := identity.SessionIDFromBytes(b); err == nil {
			skip = append(skip, id)
		}
	}
	j.routes = make([]directory.Route, 0, len(f.Routes))
	for i := range o.Users {
		switch f.Entries[i].Presence {
		case directory.PresenceOffline:
			j.out.Offline = append(j.out.Offline, o.Users[i])
		case directory.PresenceUnknown:
			j.out.Unknown = append(j.out.Unknown, o.Users[i])
		}
		for _, r := range f.Of(i) {
			if !skip.has(r.Session) {
				j.routes = append(j.routes, r)
			}
		}
	}
	var rest []Result
	if len(o.Sessions) > 0 {
		for i := range j.routes {
			skip = append(skip, j.routes[i].Session)
		}
		rest = j.collectSessions(f, skip.sorted())
	}
	j.out.Sessions = make([]Result, len(j.routes), len(j.routes)+len(rest))
	for i := range j.routes {
		r := &j.routes[i]
		j.out.Sessions[i] = Result{UID: r.UID, Session: r.Session, Gateway: r.Gateway}
	}
	j.out.Sessions = append(j.out.Sessions, rest...)
}

// collectSessions adds the routes of the sessions named by id, and returns results for those that
// have none.
func (j *job) collectSessions(f *directory.Found, skip sortedSessions) (rest []Result) {
	for i, id := range j.order.Sessions {
		if skip.has(id) {
			continue
		}
		n := len(j.order.Users) + i
		switch f.Entries[n].Presence {
		case directory.PresenceOnline:
			j.routes = append(j.routes, f.Of(n)...)
		case directory.PresenceOffline:
			rest = append(rest, Result{Session: id, Delivery: wirepb.Delivery_DELIVERY_STALE})
		case directory.PresenceUnknown:
			rest = append(rest, Result{Session: id})
		}
	}
	return rest
}

// sent ends the sending; without the line's mutex.
func (j *job) sent(err error) {
	if err != nil {
		j.refuse(err)
		return
	}
	j.settle()
}

func (j *job) refuse(err error) { j.order.Done(Outcome{Err: err}) }

// Delivered takes the result of one parcel.
func (j *job) Delivered(i int, d wirepb.Delivery) {
	j.out.Sessions[i].Delivery = d
	j.settle()
}

func (j *job) settle() {
	if j.left.Add(-1) > 0 {
		return
	}
	for i := range j.routes {
		if j.out.Sessions[i].Delivery == wirepb.Delivery_DELIVERY_STALE {
			j.leader.removeStale(j.order.Target, j.routes[i])
		}
	}
	j.order.Done(j.out)
}

// removeStale takes out exactly the route that its owner says it does not know any more.
func (l *Leader) removeStale(t slot.Target, r directory.Route) {
	l.effect(func(fx *directory.Effects) {
		if removed, err := l.dir.RemoveExact(t, r, time.Now(), fx); err == nil && removed {
			l.stats.StaleRemoved.Add(1)
		}
	})
}

// sessionSet is a few sessions; sortedSessions is one that may be large.
type (
	sessionSet     []identity.SessionID
	sortedSessions []identity.SessionID
)

func (s sessionSet) has(id identity.SessionID) bool { return slices.Contains(s, id) }

func (s sessionSet) sorted() sortedSessions {
	slices.SortFunc(s, compareSessions)
	return sortedSessions(s)
}

func (s sortedSessions) has(id identity.SessionID) bool {
	_, ok := slices.BinarySearchFunc(s, id, compareSessions)
	return ok
}

func compareSessions(a, b identity.SessionID) int { return slices.Compare(a[:], b[:]) }
