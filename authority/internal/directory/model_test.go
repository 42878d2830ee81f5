package directory

import (
	"errors"
	"slices"
	"time"

	"github.com/switchyard-io/switchyard/shared/identity"
)

// model is the directory of one slot, written to be obviously right: flat lists, searched from
// end to end. Sequences, owners and orders of arrival are arbitrary.
type model struct {
	cfg      Config
	now      time.Time
	opened   time.Time
	routes   []modelRoute
	pending  map[uint64]modelCandidate
	last     uint64
	buried   map[Owner]map[identity.SessionID]modelTomb
	past     map[modelLife]modelPast
	gone     map[Owner]time.Time
	awaited  map[Owner]bool
	rebuilds bool
	// lost are users of whom events may tell something else: what an earlier leader said of them
	// is not known here.
	lost map[identity.UID]bool
}

type modelRoute struct {
	Route
	candidate uint64
	touched   time.Time
}

type modelCandidate struct {
	Route
	policy Policy
	made   time.Time
}

type modelTomb struct {
	seq uint64
	at  time.Time
}

type modelLife struct {
	session identity.SessionID
	owner   Owner
}

// modelPast is a session that went without its owner's doing: replaced, or lost with its owner.
type modelPast struct {
	Route
	replaced bool
	at       time.Time
}

// depart notes what became of a session; where the owner comes back with it, this decides (I1).
func (m *model) depart(r Route, replaced bool) {
	m.past[modelLife{r.Session, r.Owner()}] = modelPast{r, replaced, m.now}
}

// arrive notes that a session is at its owner, and replaces the lost ones that it stands for.
func (m *model) arrive(r Route, standsFor func(lost Route) bool) {
	delete(m.past, modelLife{r.Session, r.Owner()})
	for l, p := range m.past {
		if p.UID == r.UID && !p.replaced && standsFor(p.Route) {
			m.past[l] = modelPast{p.Route, true, m.now}
		}
	}
}

func (m *model) reopen(awaited []Owner) {
	m.opened, m.routes, m.pending, m.last = m.now, nil, map[uint64]modelCandidate{}, 0
	m.buried, m.awaited = map[Owner]map[identity.SessionID]modelTomb{}, map[Owner]bool{}
	m.past = map[modelLife]modelPast{}
	for _, o := range awaited {
		delete(m.gone, o)
		m.awaited[o] = true
	}
	m.rebuilds = len(m.awaited) > 0
}

func (m *model) online(u identity.UID) bool {
	return slices.ContainsFunc(m.routes, func(r modelRoute) bool { return r.UID == u })
}

func (m *model) active(id identity.SessionID) *modelRoute {
	for i := range m.routes {
		if m.routes[i].Session == id {
			return &m.routes[i]
		}
	}
	return nil
}

func (m *model) bury(o Owner, id identity.SessionID, seq uint64) {
	if m.buried[o] == nil {
		m.buried[o] = map[identity.SessionID]modelTomb{}
	}
	m.buried[o][id] = modelTomb{max(seq, m.buried[o][id].seq), m.now}
}

func (m *model) covered(r Route) bool {
	t, ok := m.buried[r.Owner()][r.Session]
	return ok && r.OwnerSeq <= t.seq
}

func (m *model) fenced(r Route) bool {
	a := m.active(r.Session)
	return m.covered(r) || a != nil && (a.OwnerSeq > r.OwnerSeq || a.OwnerSeq == r.OwnerSeq && a.Owner() != r.Owner())
}

// ends is the rule of PROTOCOL.md section 5, word for word.
func ends(p Policy, newer, older identity.Device) bool {
	sameFlag := newer.Flag == older.Flag
	sameDevice := newer.ID != "" && newer.ID == older.ID
	switch p {
	case PolicyAllowMultiple, PolicyRejectNew:
		return false
	case PolicyKickExisting:
		return true
	}
	if newer.Level == identity.LevelMaster {
		return sameFlag
	}
	return sameFlag && sameDevice
}

func (m *model) conflicts(r Route, p Policy) (list []identity.SessionID, others int) {
	for _, o := range m.routes {
		if o.UID != r.UID {
			continue
		}
		if o.Session == r.Session {
			if o.Owner() != r.Owner() {
				list = append(list, o.Session)
			}
			continue
		}
		others++
		if ends(p, r.Device, o.Device) {
			list = append(list, o.Session)
		}
	}
	return list, others
}

func (m *model) remove(ids ...identity.SessionID) {
	m.routes = slices.DeleteFunc(m.routes, func(r modelRoute) bool { return slices.Contains(ids, r.Session) })
}

func (m *model) lapse() {
	for n, c := range m.pending {
		if m.now.Sub(c.made) >= m.cfg.CandidateTimeout {
			delete(m.pending, n)
		}
	}
}

func (m *model) pendingOf(id identity.SessionID) (uint64, modelCandidate, bool) {
	for n, c := range m.pending {
		if c.Session == id {
			return n, c, true
		}
	}
	return 0, modelCandidate{}, false
}

func (m *model) register(r Route, p Policy) (uint64, []identity.SessionID, error) {
	if _, gone := m.gone[r.Owner()]; gone {
		return 0, nil, ErrUnavailable
	}
	if m.fenced(r) {
		return 0, nil, ErrFenced
	}
	list, others := m.conflicts(r, p)
	if p == PolicyRejectNew && others > 0 {
		return 0, nil, ErrDuplicate
	}
	careless := p == PolicyAllowMultiple || p == PolicyDevice && r.Device.ID == "" && r.Device.Level == identity.LevelSlave
	if m.rebuilds && !careless && (p == PolicyRejectNew || m.now.Sub(m.opened) < m.cfg.RebuildWait) {
		return 0, nil, ErrUnavailable
	}
	m.lapse()
	if n, c, ok := m.pendingOf(r.Session); ok {
		if c.OwnerSeq < r.OwnerSeq || c.OwnerSeq == r.OwnerSeq && c.Owner() == r.Owner() {
			m.pending[n] = modelCandidate{r, p, c.made}
		} else if c.Owner() != r.Owner() {
			return 0, nil, ErrFenced
		}
		return n, list, nil
	}
	m.last++
	m.pending[m.last] = modelCandidate{r, p, m.now}
	return m.last, list, nil
}

func (m *model) commit(n uint64, id identity.SessionID, confirmed []identity.SessionID) ([]identity.SessionID, error) {
	m.lapse()
	c, ok := m.pending[n]
	if !ok || c.Session != id {
		if a := m.active(id); a != nil && n != 0 && a.candidate == n {
			return nil, nil
		}
		return nil, ErrExpired
	}
	if m.fenced(c.Route) {
		delete(m.pending, n)
		return nil, ErrFenced
	}
	list, others := m.conflicts(c.Route, c.policy)
	if c.policy == PolicyRejectNew && others > 0 {
		delete(m.pending, n)
		return nil, ErrDuplicate
	}
	var unconfirmed []identity.SessionID
	for _, s := range list {
		if !slices.Contains(confirmed, s) {
			unconfirmed = append(unconfirmed, s)
		}
	}
	if len(unconfirmed) > 0 {
		return unconfirmed, &Conflict{}
	}
	delete(m.pending, n)
	for _, s := range list {
		a := m.active(s)
		m.bury(a.Owner(), s, a.OwnerSeq)
		m.depart(a.Route, true)
	}
	m.remove(append(list, id)...)
	m.routes = append(m.routes, modelRoute{c.Route, n, m.now})
	m.arrive(c.Route, func(lost Route) bool {
		return lost.Session == id || c.policy == PolicyRejectNew || ends(c.policy, c.Device, lost.Device)
	})
	return nil, nil
}

func (m *model) unregister(o Owner, e SessionSeq) {
	m.bury(o, e.Session, e.OwnerSeq)
	if l := (modelLife{e.Session, o}); m.past[l].OwnerSeq <= e.OwnerSeq {
		delete(m.past, l)
	}
	if n, c, ok := m.pendingOf(e.Session); ok && c.Owner() == o && c.OwnerSeq <= e.OwnerSeq {
		delete(m.pending, n)
	}
	if a := m.active(e.Session); a != nil && a.Owner() == o && a.OwnerSeq <= e.OwnerSeq {
		m.remove(e.Session)
	}
}

// touch reports whether the session is missing.
func (m *model) touch(o Owner, e SessionSeq) bool {
	a := m.active(e.Session)
	if a == nil || a.Owner() != o {
		return true
	}
	if e.OwnerSeq >= a.OwnerSeq {
		a.OwnerSeq, a.LastActive, a.touched = e.OwnerSeq, max(a.LastActive, e.LastActive), m.now
	}
	return false
}

// restore returns the caller's sessions to close and the other owners' that were evicted.
func (m *model) restore(o Owner, r Route) (closing, evicted []identity.SessionID) {
	r.Gateway, r.Boot = o.Gateway, o.Boot
	a := m.active(r.Session)
	switch {
	case m.covered(r), m.past[modelLife{r.Session, o}].replaced:
		return []identity.SessionID{r.Session}, nil
	case a != nil && a.Owner() == o:
		a.OwnerSeq, a.LastActive, a.touched = max(a.OwnerSeq, r.OwnerSeq), max(a.LastActive, r.LastActive), m.now
		return nil, nil
	case a != nil && (a.OwnerSeq >= r.OwnerSeq || a.candidate != 0):
		m.depart(r, true)
		return []identity.SessionID{r.Session}, nil
	}
	after := func(x, y Route) bool {
		return x.ConnectedAt > y.ConnectedAt || x.ConnectedAt == y.ConnectedAt && x.Session.String() > y.Session.String()
	}
	_, seen := m.past[modelLife{r.Session, o}]
	var losers []modelRoute
	for _, x := range m.routes {
		endsR, endedByR := ends(PolicyDevice, x.Device, r.Device), ends(PolicyDevice, r.Device, x.Device)
		committed := x.candidate != 0
		switch {
		case x.UID != r.UID:
		case x.Session == r.Session:
			losers = append(losers, x)
		case endsR && (after(x.Route, r) || committed && (!seen || endedByR)):
			m.depart(r, true)
			return []identity.SessionID{r.Session}, nil
		case endedByR && after(r, x.Route) && !committed:
			losers = append(losers, x)
		}
	}
	for _, x := range losers {
		m.bury(x.Owner(), x.Session, x.OwnerSeq)
		m.depart(x.Route, true)
		m.remove(x.Session)
		if x.Owner() == o {
			closing = append(closing, x.Session)
		} else {
			evicted = append(evicted, x.Session)
		}
	}
	m.routes = append(m.routes, modelRoute{r, 0, m.now})
	m.arrive(r, func(lost Route) bool {
		if lost.Session == r.Session {
			return lost.OwnerSeq < r.OwnerSeq
		}
		return after(r, lost) && ends(PolicyDevice, r.Device, lost.Device)
	})
	return closing, evicted
}

func (m *model) reported(o Owner) (rebuilt bool) {
	delete(m.awaited, o)
	rebuilt = m.rebuilds && len(m.awaited) == 0
	m.rebuilds = len(m.awaited) > 0
	return rebuilt
}

func (m *model) ownerGone(o Owner) int {
	before := len(m.routes)
	m.routes = slices.DeleteFunc(m.routes, func(r modelRoute) bool { return r.Owner() == o && m.lose(r) })
	for n, c := range m.pending {
		if c.Owner() == o {
			delete(m.pending, n)
		}
	}
	m.gone[o] = m.now
	m.reported(o)
	return before - len(m.routes)
}

func (m *model) lose(r modelRoute) bool {
	m.depart(r.Route, false)
	return true
}

func (m *model) expire() int {
	m.lapse()
	for o, t := range m.gone {
		if m.now.Sub(t) >= m.cfg.TombstoneTTL {
			delete(m.gone, o)
		}
	}
	for _, tombs := range m.buried {
		for id, t := range tombs {
			if m.now.Sub(t.at) >= m.cfg.TombstoneTTL {
				delete(tombs, id)
			}
		}
	}
	for l, p := range m.past {
		if m.now.Sub(p.at) >= m.cfg.ReplacedTTL {
			delete(m.past, l)
		}
	}
	before := len(m.routes)
	m.routes = slices.DeleteFunc(m.routes, func(r modelRoute) bool {
		second := r.touched.Sub(epoch).Truncate(time.Second)
		return m.now.Sub(epoch) >= second+time.Second+m.cfg.TTL && m.lose(r)
	})
	return before - len(m.routes)
}

// sameError compares failures by kind.
func sameError(got, want error) bool {
	var c *Conflict
	if errors.As(want, &c) {
		return errors.As(got, &c)
	}
	return errors.Is(got, want)
}
