package leader

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard-io/switchyard/authority/internal/delivery"
	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/leadership"
	"github.com/switchyard-io/switchyard/shared/slot"
)

// Config of a Leader. Zero fields take the defaults.
type Config struct {
	// MaxHeld bounds the pushes of one hash slot that wait for its rebuild. Default 1024.
	MaxHeld int
	// RebuildHold is how long after a slot's opening its pushes and actions wait for the gateways
	// that have not reported. After that they are done as far as sessions are known. Default 2.5 s.
	RebuildHold time.Duration
	// Hearing says whether calls of gateways can reach the node. nil: always.
	Hearing func() bool
	// OwnerTimeout is how long an owner may take to say what became of a push that needs no
	// acknowledgement. Default 2 s.
	OwnerTimeout time.Duration
	// ActTimeout is how long an owner may take to close a session that lost to another after a
	// rebuild. Default 5 s.
	ActTimeout time.Duration
	// Log gets what the rules could not settle. nil: dropped.
	Log *slog.Logger
}

// Fence says which slots the node may answer for at this moment: leadership.Engine.Serving.
type Fence func(slot.ID) (leadership.Entry, bool)

// Announcer publishes the changes of users. It must not block.
type Announcer interface {
	User(t directory.Transition)
}

// Leader serves the hash slots that this node leads.
type Leader struct {
	cfg    Config
	layout slot.Layout
	dir    *directory.Directory
	links  *delivery.Links
	fence  Fence
	events Announcer

	slots [slot.Count]line
	held  atomic.Int64 // over all lines
	stats Stats

	// Of Tick alone: when it ran last, and the slots whose routes have had a whole TTL to show
	// themselves since the node could last not hear them.
	ticked time.Time
	heard  [slot.Count]bool // by logical slot
}

// line is where the pushes of one hash slot pass, in order.
type line struct {
	mu         sync.Mutex
	rebuilding bool
	holdUntil  time.Time // while rebuilding: when what waits for it goes on without
	held       []*job
}

// holdsLocked reports whether what comes now must wait for the rebuild.
func (s *line) holdsLocked() bool { return s.rebuilding && time.Now().Before(s.holdUntil) }

// Stats counts since the start.
type Stats struct {
	Pushes, Held, HoldOverflow, StaleRemoved, Refused, Evictions atomic.Int64
}

// New makes a leader of nothing; Open gives it slots.
func New(cfg Config, layout slot.Layout, dir *directory.Directory, links *delivery.Links, fence Fence) *Leader {
	if cfg.MaxHeld <= 0 {
		cfg.MaxHeld = 1024
	}
	if cfg.RebuildHold <= 0 {
		cfg.RebuildHold = 2500 * time.Millisecond
	}
	if cfg.OwnerTimeout <= 0 {
		cfg.OwnerTimeout = 2 * time.Second
	}
	if cfg.ActTimeout <= 0 {
		cfg.ActTimeout = 5 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Leader{cfg: cfg, layout: layout, dir: dir, links: links, fence: fence, events: silent{}}
}

// Announce names who publishes user events; before the first Open.
func (l *Leader) Announce(a Announcer) { l.events = a }

type silent struct{}

func (silent) User(directory.Transition) {}

// Stats are the counters.
func (l *Leader) Stats() *Stats { return &l.stats }

// Directory is the node's, for statistics.
func (l *Leader) Directory() *directory.Directory { return l.dir }

// Held is the number of pushes that wait for a rebuild now.
func (l *Leader) Held() int64 { return l.held.Load() }

// Target is the leadership of h while this node may serve it.
func (l *Leader) Target(h slot.Hash) (slot.Target, bool) {
	id := l.layout.ID(h)
	e, ok := l.fence(id)
	if !ok {
		return slot.Target{}, false
	}
	return e.Target(h, id), true
}

// Check is nil if the node serves exactly t at this moment. Else it is a *directory.StaleTarget,
// directory.ErrNotLeader, or directory.ErrUnavailable while the node holds the slot but may not
// serve it (lease uncertain, or just taken over).
func (l *Leader) Check(t slot.Target) error {
	cur, ok := l.Target(t.Hash)
	switch {
	case ok && cur.SameFence(t):
		return nil
	case ok:
		l.stats.Refused.Add(1)
		return &directory.StaleTarget{Current: cur}
	}
	l.stats.Refused.Add(1)
	if held, open := l.dir.Target(t.Hash); open && held.SameFence(t) {
		return directory.ErrUnavailable
	}
	return directory.ErrNotLeader
}

// Open begins or goes on with the leadership of a logical slot. awaited are the gateways that may
// hold sessions. The same term goes on with what it has.
func (l *Leader) Open(id slot.ID, e leadership.Entry, fresh bool, awaited []directory.Owner, now time.Time) error {
	for _, h := range l.layout.Hashes(id) {
		t := e.Target(h, id)
		s := &l.slots[h]
		s.mu.Lock()
		err := l.dir.Open(t, awaited, now)
		if err == nil && !fresh {
			err = l.dir.Resume(t, now)
		}
		s.rebuilding = l.dir.SlotStats(h).Rebuilding
		waiting := s.rebuilding
		if fresh || !waiting || s.holdUntil.IsZero() {
			s.holdUntil = now.Add(l.cfg.RebuildHold)
		}
		s.mu.Unlock()
		if err != nil {
			return err
		}
		if !waiting {
			l.pass(h, func(*job) bool { return true })
		}
	}
	return nil
}

// Close ends the leadership of a logical slot and frees it. Pushes that wait were sent to nobody:
// they fail as unavailable, to be retried.
func (l *Leader) Close(id slot.ID) {
	for _, h := range l.layout.Hashes(id) {
		s := &l.slots[h]
		s.mu.Lock()
		l.dir.Close(h)
		held := s.held
		s.held, s.rebuilding, s.holdUntil = nil, false, time.Time{}
		s.mu.Unlock()
		l.held.Add(-int64(len(held)))
		for _, j := range held {
			j.refuse(directory.ErrNotLeader)
		}
	}
}

// OwnerGone removes all that a gateway life held (I8).
func (l *Leader) OwnerGone(o directory.Owner, now time.Time) int {
	n := 0
	l.effect(func(fx *directory.Effects) { n = l.dir.OwnerGone(o, now, fx) })
	l.links.Forget(o)
	return n
}

// OwnerBack takes back an OwnerGone: the life was only silent.
func (l *Leader) OwnerBack(o directory.Owner) { l.dir.OwnerBack(o) }

// Tick does what is due: expires routes and candidates, and ends the wait of pushes. Calls must not
// overlap.
func (l *Leader) Tick(now time.Time) {
	l.listen(now)
	l.effect(func(fx *directory.Effects) {
		l.dir.Expire(now, func(h slot.Hash) bool { return l.heard[l.layout.ID(h)] }, fx)
	})
	if l.held.Load() == 0 {
		return
	}
	for h := range l.slots {
		s := &l.slots[h]
		l.pass(slot.Hash(h), func(j *job) bool { return !now.Before(j.order.HoldUntil) || !now.Before(s.holdUntil) })
	}
}

// maxPause is a time between two ticks which shows that the process did not run.
const maxPause = time.Second

// listen finds the slots that may expire routes. Touches do not reach a node that is paused, cut off
// or not sure of its lease: nothing expires then, and every route has a whole TTL from the moment
// when the node serves again (I7). Before that is arranged, the slot does not count as heard.
func (l *Leader) listen(now time.Time) {
	deaf := !l.ticked.IsZero() && now.Sub(l.ticked) > maxPause || l.cfg.Hearing != nil && !l.cfg.Hearing()
	l.ticked = now
	for id := range slot.ID(l.layout.Logical) {
		e, ok := l.fence(id)
		if deaf || !ok {
			l.heard[id] = false
		} else if !l.heard[id] {
			l.heard[id] = l.resume(id, e, now)
		}
	}
}

// resume gives all routes of a logical slot a whole TTL; false: it is not open in this term yet.
func (l *Leader) resume(id slot.ID, e leadership.Entry, now time.Time) bool {
	for _, h := range l.layout.Hashes(id) {
		if l.dir.Resume(e.Target(h, id), now) != nil {
			return false
		}
	}
	return true
}

var effects = sync.Pool{New: func() any { return new(directory.Effects) }}

// effect runs a change of the directory and then does what follows from it.
func (l *Leader) effect(change func(*directory.Effects)) {
	fx := effects.Get().(*directory.Effects)
	change(fx)
	for i := range fx.Transitions {
		l.events.User(fx.Transitions[i])
	}
	if len(fx.Evicted) > 0 {
		l.evict(fx.Evicted)
	}
	for _, h := range fx.Rebuilt {
		l.rebuilt(h)
	}
	fx.Reset()
	effects.Put(fx)
}

// rebuilt lets the pushes of a hash slot go that waited for it.
func (l *Leader) rebuilt(h slot.Hash) {
	s := &l.slots[h]
	s.mu.Lock()
	s.rebuilding = l.dir.SlotStats(h).Rebuilding
	still := s.rebuilding
	s.mu.Unlock()
	if !still {
		l.pass(h, func(*job) bool { return true })
	}
}

// errHeld is the overflow of a line.
var errHeld = fault.New(fault.QueueFull, "too many pushes wait for the slot")
