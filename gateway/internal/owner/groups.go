package owner

import (
	"slices"
	"sync"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
)

// errEnded says that a session ended before it could join.
var errEnded = fault.New(fault.NotFound, "session has ended")

// Failures of Join.
var (
	errGroupName   = fault.New(fault.InvalidRequest, "invalid group name")
	errTooMany     = fault.New(fault.Forbidden, "too many groups")
	errManyGroups  = fault.New(fault.QueueFull, "too many groups on this gateway")
	errNoSubscribe = fault.New(fault.Unavailable, "temporarily unavailable")
)

// subscription is what a group holds of NATS while it has members.
type subscription interface {
	Unsubscribe() error
	Dropped() (int, error)
}

// Groups knows which sessions of this gateway are in which group, and is subscribed to a group
// while it has members. Membership belongs to a session and ends with it. Safe for concurrent use.
type Groups struct {
	subscribe  func(name string) (subscription, error)
	maxGroups  int
	maxSession int
	counts     *counts

	mu        sync.Mutex
	groups    map[string]*group
	bySession map[identity.SessionID][]string
	stopped   bool
}

type group struct {
	sub     subscription
	members []Session
	index   map[identity.SessionID]int // in members
}

func newGroups(cfg Config, subscribe func(string) (subscription, error), c *counts) *Groups {
	return &Groups{
		subscribe: subscribe, maxGroups: cfg.MaxGroups, maxSession: cfg.MaxGroupsPerSession, counts: c,
		groups: make(map[string]*group), bySession: make(map[identity.SessionID][]string),
	}
}

// Join adds a session to a group; changed is false when it was a member. Once Join has returned,
// whatever the session's gateway publishes afterwards follows the subscription. Errors are
// *fault.Error: INVALID_REQUEST for the name, FORBIDDEN for a session that is in as many as it can
// be, QUEUE_FULL for a gateway with as many as it can have, UNAVAILABLE without a connection,
// NOT_FOUND when the session has ended.
func (g *Groups) Join(s Session, name string) (changed bool, err error) {
	if !identity.ValidGroup(name) {
		return false, errGroupName
	}
	if changed, err = g.join(s, name); err != nil {
		return false, err
	}
	// LeaveAll may have run before the join: then the end is visible now.
	if s.Ended() {
		g.LeaveAll(s)
		return false, errEnded
	}
	return changed, nil
}

func (g *Groups) join(s Session, name string) (bool, error) {
	id := s.ID()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return false, errNoSubscribe
	}
	mine := g.bySession[id]
	if slices.Contains(mine, name) {
		return false, nil
	}
	if len(mine) >= g.maxSession {
		return false, errTooMany
	}
	grp := g.groups[name]
	if grp == nil {
		if len(g.groups) >= g.maxGroups {
			return false, errManyGroups
		}
		sub, err := g.subscribe(name)
		if err != nil {
			return false, errNoSubscribe
		}
		grp = &group{sub: sub, index: make(map[identity.SessionID]int)}
		g.groups[name] = grp
	}
	grp.index[id] = len(grp.members)
	grp.members = append(grp.members, s)
	g.bySession[id] = append(mine, name)
	return true, nil
}

// Leave takes a session out of a group; false when it was no member.
func (g *Groups) Leave(s Session, name string) (changed bool) {
	id := s.ID()
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.bySession[id], name)
	if i < 0 {
		return false
	}
	g.removeLocked(id, name)
	if rest := slices.Delete(g.bySession[id], i, i+1); len(rest) > 0 {
		g.bySession[id] = rest
	} else {
		delete(g.bySession, id)
	}
	return true
}

// LeaveAll takes an ended session out of all of its groups.
func (g *Groups) LeaveAll(s Session) {
	id := s.ID()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range g.bySession[id] {
		g.removeLocked(id, name)
	}
	delete(g.bySession, id)
}

// removeLocked takes a member out; the last one ends the subscription.
func (g *Groups) removeLocked(id identity.SessionID, name string) {
	grp := g.groups[name]
	i, last := grp.index[id], len(grp.members)-1
	grp.members[i] = grp.members[last]
	grp.index[grp.members[i].ID()] = i
	grp.members[last] = nil
	grp.members = grp.members[:last]
	delete(grp.index, id)
	if last == 0 {
		g.dropLocked(name, grp)
	}
}

func (g *Groups) dropLocked(name string, grp *group) {
	if n, err := grp.sub.Dropped(); err == nil {
		g.counts.dropped.Add(int64(n))
	}
	_ = grp.sub.Unsubscribe()
	delete(g.groups, name)
}

// Of is the names of a session's groups.
func (g *Groups) Of(id identity.SessionID) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.bySession[id])
}

// Len is the number of groups with members here.
func (g *Groups) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.groups)
}

// members appends the group's sessions to dst: pushes are made without the lock, as a session
// that is cut leaves its groups.
func (g *Groups) members(dst []Session, name string) []Session {
	g.mu.Lock()
	defer g.mu.Unlock()
	if grp := g.groups[name]; grp != nil {
		dst = append(dst, grp.members...)
	}
	return dst
}

func (g *Groups) dropped() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	var n int64
	for _, grp := range g.groups {
		if d, err := grp.sub.Dropped(); err == nil {
			n += int64(d)
		}
	}
	return n
}

// stop ends all subscriptions; later joins fail.
func (g *Groups) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	for name, grp := range g.groups {
		g.dropLocked(name, grp)
	}
	clear(g.bySession)
}
