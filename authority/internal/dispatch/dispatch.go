package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/authority/internal/delivery"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/leadership"
	"github.com/switchyard-io/switchyard/shared/membership"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// Bounds of one call to a leader: with the largest payload it still fits a NATS message.
const (
	maxCallTargets = 1024
	maxCallBytes   = 64 << 10
)

// retryEvery is how often groups that wait for a leader are tried again when the table does not
// change meanwhile.
const retryEvery = 100 * time.Millisecond

// answerMargin is how long after everything else a leader's answer may still be under way.
const answerMargin = 500 * time.Millisecond

// Config of a Dispatcher. Zero fields take the defaults.
type Config struct {
	// LeaderWait is how long a push or an action waits for a slot's leader. Default 2.5 s.
	LeaderWait time.Duration
	// OwnerTimeout is how long owners may take to answer. Default 2 s.
	OwnerTimeout time.Duration
	// LookupTimeout is how long a leader may take to say who is online. Default 1 s.
	LookupTimeout time.Duration
}

// Snapshot is one state of the slot table: a leadership.Snapshot.
type Snapshot interface {
	Target(h slot.Hash) (slot.Target, bool)
}

// Table is the slot table.
type Table interface {
	Snapshot() Snapshot
	// Changed is closed when the snapshot changes after this call.
	Changed() <-chan struct{}
}

// Gateways says which gateways live: a membership.Tracker.
type Gateways interface {
	Live(service string) []membership.Node
	Alive(service, node, boot string) bool
}

// Dispatcher makes the calls.
type Dispatcher struct {
	cfg      Config
	nc       *nats.Conn
	calls    delivery.Calls
	table    Table
	gateways Gateways
}

// New makes a dispatcher; nc and calls are the data connection's.
func New(cfg Config, nc *nats.Conn, calls delivery.Calls, table Table, gateways Gateways) *Dispatcher {
	for _, f := range []struct {
		d   *time.Duration
		def time.Duration
	}{{&cfg.LeaderWait, 2500 * time.Millisecond}, {&cfg.OwnerTimeout, 2 * time.Second}, {&cfg.LookupTimeout, time.Second}} {
		if *f.d <= 0 {
			*f.d = f.def
		}
	}
	return &Dispatcher{cfg: cfg, nc: nc, calls: calls, table: table, gateways: gateways}
}

// group is what a request has for one hash slot.
type group struct {
	hash     slot.Hash
	users    []string
	sessions [][]byte
	bytes    int
	target   slot.Target // of this try
	hint     slot.Target // what an answer said; zero: nothing
}

func (g *group) wire() *wirepb.UserGroup {
	return &wirepb.UserGroup{Target: wire.Target(g.target), Uids: g.users, SessionIds: g.sessions}
}

// groupsOf sorts users and sessions, each once, into groups that fit a call.
func groupsOf(users []identity.UID, sessions []identity.SessionID) []*group {
	var out []*group
	var open [slot.Count]*group
	seenUsers := make(map[identity.UID]struct{}, len(users))
	seenSessions := make(map[identity.SessionID]struct{}, len(sessions))
	at := func(h slot.Hash, size int) *group {
		g := open[h]
		if g == nil || len(g.users)+len(g.sessions) >= maxCallTargets || g.bytes+size > maxCallBytes {
			g = &group{hash: h}
			open[h] = g
			out = append(out, g)
		}
		g.bytes += size
		return g
	}
	for _, u := range users {
		if _, dup := seenUsers[u]; !dup {
			seenUsers[u] = struct{}{}
			g := at(slot.OfUID(u), len(u)+4)
			g.users = append(g.users, string(u))
		}
	}
	for _, s := range sessions {
		if _, dup := seenSessions[s]; !dup {
			seenSessions[s] = struct{}{}
			g := at(slot.Hash(s.HashSlot()), len(s)+4)
			g.sessions = append(g.sessions, s[:])
		}
	}
	return out
}

// verdict is a leader's answer about one group.
type verdict struct {
	status  wirepb.Status
	current *wirepb.Target
}

// exchange is one kind of request to leaders.
type exchange struct {
	op     subject.AuthorityOp
	header nats.Header
	// wait ends the tries; rounds bounds them, 0 is no bound.
	wait   time.Time
	rounds int
	// answer is when a leader's answer is no longer waited for.
	answer time.Time
	encode func([]*group) ([]byte, error)
	// decode takes an answer in: results of the groups that were served, a verdict for each.
	decode func(data []byte, gs []*group) ([]verdict, error)
	// failed takes a group that was refused, or whose outcome is not known.
	failed func(g *group, code fault.Code)
}

// run makes an exchange, and returns the groups that no leader took.
func (d *Dispatcher) run(ctx context.Context, x *exchange, pending []*group) []*group {
	for round := 1; ; round++ {
		changed := d.table.Changed()
		calls, missing := d.align(pending)
		again, redirected := d.round(ctx, x, calls)
		pending = append(missing, again...)
		if len(pending) == 0 || round == x.rounds || !time.Now().Before(x.wait) || ctx.Err() != nil {
			return pending
		}
		if redirected && len(missing) == 0 && len(again) == countHinted(again) {
			continue
		}
		if x.rounds == 0 {
			pause(ctx, changed, min(retryEvery, time.Until(x.wait)))
		}
	}
}

func countHinted(gs []*group) (n int) {
	for _, g := range gs {
		if g.hint.Newer(g.target) {
			n++
		}
	}
	return n
}

func pause(ctx context.Context, changed <-chan struct{}, atMost time.Duration) {
	timer := time.NewTimer(max(0, atMost))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-changed:
	case <-timer.C:
	}
}

// call is the groups of one message to one leader.
type call struct {
	leader leadership.Owner
	groups []*group
}

// align gives every group its target, all from one snapshot, and sorts them by leader.
func (d *Dispatcher) align(pending []*group) (calls []*call, missing []*group) {
	snap := d.table.Snapshot()
	open := map[leadership.Owner]*call{}
	size := map[*call]int{}
	for _, g := range pending {
		t, ok := snap.Target(g.hash)
		if g.hint.Newer(t) {
			t, ok = g.hint, true
		}
		if !ok {
			missing = append(missing, g)
			continue
		}
		g.target = t
		o := leadership.Owner{Node: t.LeaderNode, Boot: t.LeaderBoot}
		c := open[o]
		if c == nil || size[c]+g.bytes > maxCallBytes {
			c = &call{leader: o}
			open[o] = c
			calls = append(calls, c)
		}
		c.groups = append(c.groups, g)
		size[c] += g.bytes
	}
	return calls, missing
}

// answered is a leader's answer, or the lack of one.
type answered struct {
	call *call
	data []byte
	err  error
	sent bool // err came after the call had left
}

// round makes one try: all calls at once. It returns the groups to try again, and whether an
// answer said where. What is not answered when ctx ends has failed: it may have been done.
func (d *Dispatcher) round(ctx context.Context, x *exchange, calls []*call) (again []*group, redirected bool) {
	answers := make(chan answered, len(calls))
	waiting := make(map[*call]struct{}, len(calls))
	for _, c := range calls {
		waiting[c] = struct{}{}
		data, err := x.encode(c.groups)
		if err == nil {
			to := subject.Authority(c.leader.Node, c.leader.Boot, x.op)
			err = d.calls.Call(to, data, x.header, x.answer, func(m *nats.Msg, err error) bool {
				a := answered{call: c, err: err, sent: true}
				if err == nil {
					a.data = m.Data
				}
				answers <- a
				return true
			})
		}
		if err != nil {
			answers <- answered{call: c, err: err}
		}
	}
	for len(waiting) > 0 {
		select {
		case a := <-answers: // a call ends at its deadline
			delete(waiting, a.call)
			more, hinted := d.take(x, a)
			again = append(again, more...)
			redirected = redirected || hinted
		case <-ctx.Done():
			for c := range waiting {
				for _, g := range c.groups {
					x.failed(g, fault.Timeout)
				}
			}
			return again, redirected
		}
	}
	return again, redirected
}

// take sorts out one answer.
func (d *Dispatcher) take(x *exchange, a answered) (again []*group, redirected bool) {
	var verdicts []verdict
	if a.err == nil {
		verdicts, a.err = x.decode(a.data, a.call.groups)
		if a.err == nil && len(verdicts) != len(a.call.groups) {
			a.err = fault.ErrInternal
		}
	}
	if a.err != nil {
		// Nobody got it, or it never left: nothing has changed.
		if errors.Is(a.err, nats.ErrNoResponders) || !a.sent && errors.Is(a.err, fault.ErrUnavailable) {
			return a.call.groups, false
		}
		for _, g := range a.call.groups {
			x.failed(g, fault.From(a.err).Code)
		}
		return nil, false
	}
	for i, v := range verdicts {
		g := a.call.groups[i]
		switch v.status {
		case wirepb.Status_STATUS_OK:
		case wirepb.Status_STATUS_STALE_TARGET, wirepb.Status_STATUS_NOT_LEADER, wirepb.Status_STATUS_UNAVAILABLE:
			if t, err := wire.ParseTarget(v.current); err == nil && t.Hash == g.hash && t.Newer(g.target) {
				g.hint, redirected = t, true
			}
			again = append(again, g)
		case wirepb.Status_STATUS_QUEUE_FULL:
			x.failed(g, fault.QueueFull)
		default:
			x.failed(g, fault.Internal)
		}
	}
	return again, redirected
}
