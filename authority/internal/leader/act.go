package leader

import (
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// maxActSessions bounds the sessions of one owner action message.
const maxActSessions = 2048

// Action is an owner action for users and sessions of one hash slot.
type Action struct {
	Target   slot.Target
	Users    []identity.UID
	Sessions []identity.SessionID
	Kind     wirepb.ActionKind
	Reason   string
	Group    string
	Except   identity.SessionID // this session is left alone
	Deadline time.Time
	// Done is called once, from any goroutine: how many sessions it was done for, and the users (some
	// perhaps twice) for
	// some session of which that is not known, "" for a session named by id of whom nothing is known.
	// With an error nothing was done, but with ErrRefused. It must not block.
	Done func(done int, unknown []identity.UID, err error)
}

// ErrRefused says that an owner may not do an action for some session; for the others it is done.
var ErrRefused = errors.New("leader: refused by an owner")

// Act has the owners do an action. For Config.RebuildHold after a slot's opening it refuses with
// directory.ErrUnavailable, and does nothing, while gateways have not reported. After that it is done
// for the sessions that are known, and every user is unknown: a gateway that has not reported may
// hold more of anybody's.
func (l *Leader) Act(a Action) {
	routes, unknown, err := l.actRoutes(&a)
	if err != nil || len(routes) == 0 {
		a.Done(0, unknown, err)
		return
	}
	byOwner := map[directory.Owner][]directory.Route{}
	for _, r := range routes {
		byOwner[r.Owner()] = append(byOwner[r.Owner()], r)
	}
	t := &tally{leader: l, action: &a, left: 1, unknown: unknown}
	for o, rs := range byOwner {
		for len(rs) > 0 {
			n := min(len(rs), maxActSessions)
			t.send(o, rs[:n])
			rs = rs[n:]
		}
	}
	t.settle(func() {})
}

// actRoutes finds the routes that an action is for, each once, and who may have some elsewhere.
func (l *Leader) actRoutes(a *Action) (routes []directory.Route, unknown []identity.UID, err error) {
	if err := l.Check(a.Target); err != nil {
		return nil, nil, err
	}
	s := &l.slots[a.Target.Hash]
	s.mu.Lock()
	holds := s.holdsLocked()
	s.mu.Unlock()
	if holds {
		return nil, nil, directory.ErrUnavailable
	}
	f := founds.Get().(*directory.Found)
	defer func() { f.Reset(); founds.Put(f) }()
	rebuilding := l.dir.SlotStats(a.Target.Hash).Rebuilding // before looking: what is reported later is missed
	if err := l.dir.Lookup(a.Target, a.Users, f); err != nil {
		return nil, nil, err
	}
	if err := l.dir.LookupSessions(a.Target, a.Sessions, f); err != nil {
		return nil, nil, err
	}
	for i, e := range f.Entries {
		switch {
		case i < len(a.Users):
			if rebuilding || e.Presence == directory.PresenceUnknown {
				unknown = append(unknown, a.Users[i])
			}
		case e.Presence == directory.PresenceUnknown:
			unknown = append(unknown, "")
		}
	}
	seen := map[identity.SessionID]bool{a.Except: true}
	routes = make([]directory.Route, 0, len(f.Routes))
	for _, r := range f.Routes {
		if !seen[r.Session] {
			seen[r.Session] = true
			routes = append(routes, r)
		}
	}
	return routes, unknown, nil
}

// tally gathers the answers to one action.
type tally struct {
	leader *Leader
	action *Action

	mu      sync.Mutex
	left    int // calls without answer, and one while sending
	done    int
	refused bool
	unknown []identity.UID
}

func (t *tally) send(o directory.Owner, rs []directory.Route) {
	t.mu.Lock()
	t.left++
	t.mu.Unlock()
	a := t.action
	t.leader.links.Act(o, ownerAction(o, rs, a.Kind, a.Reason, a.Group, a.Deadline), a.Deadline,
		func(results []wirepb.ActionResult, err error) { t.answered(rs, results, err) })
}

func (t *tally) answered(rs []directory.Route, results []wirepb.ActionResult, err error) {
	gone := errors.Is(err, nats.ErrNoResponders) // for good: what links say of a life that is over
	for i, r := range rs {
		if gone || err == nil && results[i] == wirepb.ActionResult_ACTION_RESULT_GONE {
			t.leader.removeStale(t.action.Target, r)
		}
	}
	t.settle(func() {
		for i, r := range rs {
			switch {
			case err == nil && results[i] == wirepb.ActionResult_ACTION_RESULT_DONE:
				t.done++
			case err == nil && results[i] == wirepb.ActionResult_ACTION_RESULT_REFUSED:
				t.refused = true
			case err != nil && !gone, err == nil && results[i] == wirepb.ActionResult_ACTION_RESULT_FAILED:
				t.unknown = append(t.unknown, r.UID)
			}
		}
	})
}

func (t *tally) settle(count func()) {
	t.mu.Lock()
	count()
	t.left--
	over := t.left == 0
	t.mu.Unlock()
	if !over {
		return
	}
	var err error
	if t.refused {
		err = ErrRefused
	}
	t.action.Done(t.done, t.unknown, err)
}

// evict tells the owners of routes that lost to a restored one to close them. One that does not
// answer is fenced by the directory: it is told again when it next restores or touches.
func (l *Leader) evict(routes []directory.Route) {
	byOwner := map[directory.Owner][]directory.Route{}
	for _, r := range routes {
		byOwner[r.Owner()] = append(byOwner[r.Owner()], r)
	}
	deadline := time.Now().Add(l.cfg.ActTimeout)
	for o, rs := range byOwner {
		l.stats.Evictions.Add(int64(len(rs)))
		a := ownerAction(o, rs, wirepb.ActionKind_ACTION_KIND_REPLACE, "", "", deadline)
		l.links.Act(o, a, deadline, func(_ []wirepb.ActionResult, err error) {
			if err != nil && !errors.Is(err, nats.ErrNoResponders) {
				l.cfg.Log.Warn("eviction not confirmed", "gateway", o.Gateway, "boot", o.Boot, "sessions", len(rs), "error", err)
			}
		})
	}
}

func ownerAction(o directory.Owner, rs []directory.Route, k wirepb.ActionKind, reason, group string, deadline time.Time) *wirepb.OwnerAction {
	a := &wirepb.OwnerAction{
		GatewayId: o.Gateway, BootId: o.Boot, Kind: k, Reason: reason, Group: group, DeadlineMs: deadline.UnixMilli(),
		Sessions: make([]*wirepb.Address, len(rs)),
	}
	for i := range rs {
		a.Sessions[i] = &wirepb.Address{Uid: string(rs[i].UID), SessionId: rs[i].Session[:], OwnerSeq: rs[i].OwnerSeq}
	}
	return a
}
