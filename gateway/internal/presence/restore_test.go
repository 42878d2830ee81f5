package presence

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// reports is a leader that takes restores.
type reports struct {
	mu       sync.Mutex
	t        *testing.T
	routes   map[identity.SessionID]uint64 // term
	complete map[slot.Hash]uint64          // term
	atWord   map[slot.Hash]int             // routes of the slot that were known at "complete"
	most     int
	refuse   func(*wirepb.RestoreRequest) *wirepb.RestoreReply // under mu
}

func newReports(t *testing.T) *reports {
	return &reports{t: t, routes: map[identity.SessionID]uint64{}, complete: map[slot.Hash]uint64{}, atWord: map[slot.Hash]int{}}
}

func (p *reports) answer(data []byte) message {
	req := parse[wirepb.RestoreRequest](p.t, data)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		if reply := p.refuse(req); reply != nil {
			return reply
		}
	}
	size := 0
	for _, g := range req.Groups {
		h := slot.Hash(g.Target.HashSlot)
		for _, r := range g.Routes {
			p.routes[identity.SessionID(r.SessionId)] = g.Target.LeaderTerm
			size++
		}
		if g.Complete {
			p.complete[h] = g.Target.LeaderTerm
			for id := range p.routes {
				if slot.Hash(id.HashSlot()) == h {
					p.atWord[h]++
				}
			}
		}
	}
	p.most = max(p.most, size)
	return okRestore(len(req.Groups))
}

// told is the number of slots that were reported whole at a term.
func (p *reports) told(term uint64) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, at := range p.complete {
		if at == term {
			n++
		}
	}
	return n
}

func leadAll(r *rig, node string, term uint64) {
	for h := range slot.Count {
		r.table.set(target(slot.Hash(h), node, term))
	}
	r.SlotChanged()
}

func TestI7_EveryNewTermIsToldEverySlot(t *testing.T) {
	r := newRig(t, func(c *Config) { c.ReconcileInterval = time.Hour }) // only by what the table says
	a, b := newReports(t), newReports(t)
	r.serve(authority("a", subject.AuthorityRestore), a.answer)
	r.serve(authority("b", subject.AuthorityRestore), b.answer)
	r.sessions.add(7, 3)
	r.sessions.add(200, 1)
	r.run()
	leadAll(r, "a", 1)
	natstest.Eventually(t, patience, "all slots are told, the empty ones too", func() bool { return a.told(1) == slot.Count })
	if len(a.routes) != 4 {
		t.Fatalf("%d routes", len(a.routes))
	}
	natstest.Eventually(t, patience, "the answer is noted", func() bool { return r.Reported(7) && r.Reported(8) })
	leadAll(r, "b", 2)
	natstest.Eventually(t, patience, "the next term is told", func() bool { return b.told(2) == slot.Count })
	natstest.Eventually(t, patience, "the answer is noted", func() bool { return r.Reported(7) })
	if n := r.counts.restored.Load(); n != 8 {
		t.Fatalf("%d sessions told, want each once a term", n)
	}
}

func TestI7_CompleteFollowsAllThatWasTaken(t *testing.T) {
	r := newRig(t, func(c *Config) { c.BatchSessions = 10 })
	p := newReports(t)
	failures := 0
	p.refuse = func(req *wirepb.RestoreRequest) *wirepb.RestoreReply {
		if failures++; failures > 3 {
			return nil
		}
		reply := okRestore(len(req.Groups)) // not one of these is kept
		for _, g := range reply.Groups {
			g.Status = wirepb.Status_STATUS_UNAVAILABLE
		}
		return reply
	}
	r.serve(authority("a", subject.AuthorityRestore), p.answer)
	r.sessions.add(7, 35)
	r.sessions.add(8, 4)
	r.table.set(target(7, "a", 1), target(8, "a", 1), target(9, "a", 1))
	r.run()
	natstest.Eventually(t, patience, "three slots are told", func() bool { return p.told(1) == 3 })
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.atWord[7] != 35 || p.atWord[8] != 4 || p.atWord[9] != 0 || p.most > 10 {
		t.Fatalf("known at the word: %v; at most %d in a request", p.atWord, p.most)
	}
}

func TestAReportFollowsTheLeader(t *testing.T) {
	r := newRig(t)
	b := newReports(t)
	r.serve(authority("a", subject.AuthorityRestore), func([]byte) message {
		return &wirepb.RestoreReply{Groups: []*wirepb.RestoreGroupResult{
			{Status: wirepb.Status_STATUS_STALE_TARGET, Current: wire.Target(target(7, "b", 2))},
		}}
	})
	r.serve(authority("b", subject.AuthorityRestore), b.answer)
	r.table.set(target(7, "a", 1), target(8, "nobody", 1))
	r.run()
	natstest.Eventually(t, patience, "the new leader is told", func() bool { return b.told(2) == 1 })
	natstest.Eventually(t, patience, "nobody is asked again", func() bool { return r.counts.noResponders.Load() > 3 })
	if r.Reported(8) {
		t.Fatal("reported to nobody")
	}
}

func TestI1_ARestoredSessionThatLostIsClosed(t *testing.T) {
	r := newRig(t)
	loser := r.sessions.add(7, 2)[1]
	r.serve(authority("a", subject.AuthorityRestore), func(data []byte) message {
		reply := okRestore(len(parse[wirepb.RestoreRequest](t, data).Groups))
		reply.Groups[0].Close = [][]byte{loser[:]}
		return reply
	})
	r.table.set(target(7, "a", 1))
	r.run()
	natstest.Eventually(t, patience, "the report is taken", func() bool { return r.Reported(7) })
	if len(r.sessions.replaced) != 1 || r.sessions.replaced[0] != loser {
		t.Fatalf("replaced %v", r.sessions.replaced)
	}
}

func TestI7_ASessionThatBecameActiveInANewTermIsTold(t *testing.T) {
	r := newRig(t)
	p := newReports(t)
	r.serve(authority("b", subject.AuthorityRestore), p.answer)
	old := target(7, "a", 1)
	r.table.set(old)
	id := r.sessions.add(7, 1)[0]
	reg := Registration{Target: old, Session: id}
	if err := r.Activated(within(t, patience), reg); err != nil || r.counts.attempts.Load() != 0 {
		t.Fatalf("a session of the current term cost %d calls: %v", r.counts.attempts.Load(), err)
	}
	r.table.set(target(7, "b", 2))
	if err := r.Activated(within(t, patience), reg); err != nil {
		t.Fatal(err)
	}
	if p.routes[id] != 2 || p.told(2) != 0 {
		t.Fatalf("told at term %d; complete %v", p.routes[id], p.complete)
	}
	r.table.set(target(7, "nobody", 3))
	if err := r.Activated(within(t, 30*time.Millisecond), reg); !errors.Is(err, fault.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	r.sessions.remove(id)
	if err := r.Activated(within(t, patience), reg); err != nil {
		t.Fatalf("an ended session has nothing to tell: %v", err)
	}
}

// TestI7_AComebackIsToldAgain: a leader that had taken the gateway for gone asks for all of it, also
// while a report is on its way, which it may have taken before.
func TestI7_AComebackIsToldAgain(t *testing.T) {
	r := newRig(t, func(c *Config) { c.ReconcileInterval = time.Hour })
	a := newReports(t)
	dropped := make(chan struct{})
	reported := 0
	a.refuse = func(*wirepb.RestoreRequest) *wirepb.RestoreReply {
		if reported++; reported == 1 {
			close(dropped) // before it answers
			r.ReportAgain("a", "aboot")
		}
		return nil
	}
	r.serve(authority("a", subject.AuthorityRestore), a.answer)
	r.sessions.add(7, 3)
	r.table.set(target(7, "a", 1), target(8, "a", 1))
	r.run()
	<-dropped
	again := func(n int64) func() bool {
		return func() bool { return r.counts.restored.Load() == n && r.Reported(7) && r.Reported(8) }
	}
	natstest.Eventually(t, patience, "it is told a second time", again(6))
	r.ReportAgain("b", "bboot") // another life
	r.ReportAgain("a", "aboot")
	natstest.Eventually(t, patience, "it is told a third time", again(9))
}

func TestI9_EverythingIsToldAgainAfterAReconnect(t *testing.T) {
	var reconnects atomic.Uint64
	r := newRig(t, func(c *Config) { c.Reconnects = reconnects.Load })
	p := newReports(t)
	r.serve(authority("a", subject.AuthorityRestore), p.answer)
	r.sessions.add(7, 3)
	r.table.set(target(7, "a", 1), target(8, "a", 1))
	r.run()
	natstest.Eventually(t, patience, "told once", func() bool { return r.counts.restoreComplete.Load() == 2 })
	reconnects.Add(1)
	natstest.Eventually(t, patience, "told again", func() bool { return r.counts.restoreComplete.Load() == 4 })
	if n := r.counts.restored.Load(); n != 6 {
		t.Fatalf("%d sessions told", n)
	}
}

func TestASlotWhereARouteIsMissingIsToldAgain(t *testing.T) {
	r := newRig(t)
	p := newReports(t)
	ids := r.sessions.add(7, 3)
	r.serve(authority("a", subject.AuthorityRestore), p.answer)
	r.serve(authority("a", subject.AuthorityTouch), func([]byte) message {
		return &wirepb.SessionBatchReply{Groups: []*wirepb.SessionGroupResult{
			{Status: wirepb.Status_STATUS_OK, Missing: [][]byte{ids[0][:]}},
		}}
	})
	r.table.set(target(7, "a", 1))
	r.run()
	natstest.Eventually(t, patience, "told once", func() bool { return r.Reported(7) })
	r.markDirty(ids[0])
	natstest.Eventually(t, patience, "told again", func() bool { return r.counts.restoreComplete.Load() == 2 })
}

func TestI9_AnOutageIsMadeUpFor(t *testing.T) {
	servers := natstest.Cluster(t, 1)
	r := rigAt(t, servers.URL())
	taken := newReports(t)
	answerUnregister := func(data []byte) message { return okGroups(len(parse[wirepb.SessionBatch](t, data).Groups)) }
	r.serve(authority("a", subject.AuthorityRestore), taken.answer)
	r.serve(authority("a", subject.AuthorityUnregister), answerUnregister)
	r.run()
	servers.Stop(0)
	r.table.set(target(7, "a", 1))
	r.sessions.add(7, 2)
	if err := r.Unregister("eu/main/alice", identity.NewSessionID(7), 3); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, patience, "failures", func() bool {
		return r.counts.unregisterRetry.Load() > 1 && r.counts.restoreFailed.Load() > 1
	})
	servers.Restart(0)
	natstest.Eventually(t, 3*patience, "all is told", func() bool { return r.Reported(7) && r.Unregistering() == 0 })
}
