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

// tally notes which sessions arrived, at which sequence.
type tally struct {
	mu   sync.Mutex
	seqs map[identity.SessionID]uint64
	most int // in one request
}

func (y *tally) take(t *testing.T, data []byte) *wirepb.SessionBatch {
	req := parse[wirepb.SessionBatch](t, data)
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.seqs == nil {
		y.seqs = map[identity.SessionID]uint64{}
	}
	n := 0
	for _, g := range req.Groups {
		for _, s := range g.Sessions {
			id := identity.SessionID(s.SessionId)
			if uint32(id.HashSlot()) != g.Target.HashSlot {
				t.Errorf("session of slot %d in the group of slot %d", id.HashSlot(), g.Target.HashSlot)
			}
			y.seqs[id] = s.OwnerSeq
			n++
		}
	}
	y.most = max(y.most, n)
	return req
}

func (y *tally) len() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.seqs)
}

func (r *rig) markDirty(ids ...identity.SessionID) {
	r.sessions.mu.Lock()
	defer r.sessions.mu.Unlock()
	r.sessions.dirty = append(r.sessions.dirty, ids...)
}

func TestTouchIsBatchedByLeader(t *testing.T) {
	r := newRig(t, func(c *Config) { c.BatchSessions, c.MaxInFlight = 10, 2 })
	r.table.set(target(1, "a", 1), target(2, "a", 3), target(3, "b", 2))
	var at [2]tally
	for i, node := range []string{"a", "b"} {
		r.serve(authority(node, subject.AuthorityTouch), func(data []byte) message {
			req := at[i].take(t, data)
			if req.GatewayId != "gw" || req.BootId != "boot" || req.DeadlineMs == 0 {
				t.Errorf("request of %s %s", req.GatewayId, req.BootId)
			}
			return okGroups(len(req.Groups))
		})
	}
	r.markDirty(append(append(r.sessions.add(1, 17), r.sessions.add(2, 18)...), r.sessions.add(3, 25)...)...)
	r.drainDirty(within(t, patience)) // one pass: nothing failed
	if at[0].len() != 35 || at[1].len() != 25 || at[0].most > 10 || at[1].most > 10 {
		t.Fatalf("a got %d, b %d, at most %d and %d at once", at[0].len(), at[1].len(), at[0].most, at[1].most)
	}
	if n := r.counts.touched.Load(); n != 60 {
		t.Fatalf("%d touched", n)
	}
}

func TestFailedTouchesAreQueuedAgainWhileCurrent(t *testing.T) {
	r := newRig(t)
	r.table.set(target(1, "a", 1), target(2, "a", 1), target(4, "gone", 1)) // nobody leads 3
	kept, ended := r.sessions.add(1, 1)[0], r.sessions.add(2, 1)[0]
	lost, dead := r.sessions.add(3, 1)[0], r.sessions.add(4, 1)[0]
	var ok tally
	var refused atomic.Bool
	r.serve(authority("a", subject.AuthorityTouch), func(data []byte) message {
		req := parse[wirepb.SessionBatch](t, data)
		if refused.CompareAndSwap(false, true) {
			r.sessions.remove(ended)
			return &wirepb.SessionBatchReply{Groups: []*wirepb.SessionGroupResult{
				{Status: wirepb.Status_STATUS_STALE_TARGET, Current: wire.Target(target(1, "b", 2))},
				{Status: wirepb.Status_STATUS_UNAVAILABLE},
			}}
		}
		ok.take(t, data)
		return okGroups(len(req.Groups))
	})
	r.serve(authority("b", subject.AuthorityTouch), func(data []byte) message { return okGroups(len(ok.take(t, data).Groups)) })
	r.markDirty(kept, ended, lost, dead)
	r.drainDirty(within(t, patience))
	if r.sessions.requeued != 3 { // not the one that ended
		t.Fatalf("%d queued again", r.sessions.requeued)
	}
	r.table.set(target(3, "a", 1), target(4, "a", 2))
	r.run()
	natstest.Eventually(t, patience, "the others are touched", func() bool { return ok.len() == 3 })
	ok.mu.Lock()
	defer ok.mu.Unlock()
	if _, touched := ok.seqs[ended]; touched {
		t.Fatal("an ended session was touched")
	}
}

func TestATouchThatFindsNoRouteRestoresIt(t *testing.T) {
	r := newRig(t)
	now := target(1, "a", 1)
	r.table.set(now)
	ids := r.sessions.add(1, 3)
	loser := ids[2]
	r.serve(authority("a", subject.AuthorityTouch), func([]byte) message {
		foreign := identity.NewSessionID(9)
		return &wirepb.SessionBatchReply{Groups: []*wirepb.SessionGroupResult{
			{Status: wirepb.Status_STATUS_OK, Missing: [][]byte{ids[0][:], loser[:], foreign[:], {1}}},
		}}
	})
	got := make(chan *wirepb.RestoreRequest, 8)
	r.serve(authority("a", subject.AuthorityRestore), func(data []byte) message {
		req := parse[wirepb.RestoreRequest](t, data)
		got <- req
		reply := okRestore(len(req.Groups))
		reply.Groups[0].Close = [][]byte{loser[:]}
		return reply
	})
	r.markDirty(ids...)
	r.drainDirty(within(t, patience))
	req := <-got
	restored := map[identity.SessionID]bool{}
	for _, g := range req.Groups {
		if g.Complete {
			t.Error("single sessions are no whole report")
		}
		for _, route := range g.Routes {
			restored[identity.SessionID(route.SessionId)] = true
		}
	}
	if len(restored) != 2 || !restored[ids[0]] || !restored[loser] || r.counts.malformed.Load() != 2 {
		t.Fatalf("restored %v, %d malformed", restored, r.counts.malformed.Load())
	}
	if len(r.sessions.replaced) != 1 || r.sessions.replaced[0] != loser {
		t.Fatalf("replaced %v", r.sessions.replaced)
	}
}

func TestUnregisterIsRetriedUntilDoneOrFenced(t *testing.T) {
	r := newRig(t)
	r.table.set(target(1, "a", 1), target(2, "a", 1), target(4, "dead", 1)) // nobody leads 3
	var tries atomic.Int64
	var taken tally
	answer := func(data []byte) message {
		if tries.Add(1) < 4 {
			n := len(parse[wirepb.SessionBatch](t, data).Groups)
			reply := okGroups(n)
			for _, g := range reply.Groups {
				g.Status = wirepb.Status_STATUS_UNAVAILABLE
			}
			return reply
		}
		reply := okGroups(len(taken.take(t, data).Groups))
		reply.Groups[0].Status = wirepb.Status_STATUS_FENCED
		return reply
	}
	r.serve(authority("a", subject.AuthorityUnregister), answer)
	r.serve(authority("b", subject.AuthorityUnregister), answer)
	for h := range slot.Hash(4) {
		if err := r.Unregister("eu/main/alice", identity.NewSessionID(uint8(h+1)), 5); err != nil {
			t.Fatal(err)
		}
	}
	r.run()
	natstest.Eventually(t, patience, "slots 1 and 2 are done", func() bool { return r.Unregistering() == 2 })
	r.table.set(target(3, "b", 1), target(4, "b", 2)) // owned by another: told there
	if err := r.Flush(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	if taken.len() != 4 || r.Unregistering() != 0 {
		t.Fatalf("%d taken, %d left", taken.len(), r.Unregistering())
	}
	for id, seq := range taken.seqs {
		if seq != 5 {
			t.Errorf("%v at sequence %d", id, seq)
		}
	}
}

func TestI12_UnregisterQueueIsBounded(t *testing.T) {
	r := newRig(t, func(c *Config) { c.UnregisterQueue = 2 })
	for range 2 {
		if err := r.Unregister("eu/main/alice", identity.NewSessionID(1), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Unregister("eu/main/alice", identity.NewSessionID(1), 1); !errors.Is(err, fault.ErrQueueFull) {
		t.Fatalf("got %v", err)
	}
	r.run() // nobody leads: they stay, and count
	natstest.Eventually(t, patience, "a retry", func() bool { return r.counts.unregisterRetry.Load() > 2 })
	if err := r.Unregister("eu/main/alice", identity.NewSessionID(1), 1); !errors.Is(err, fault.ErrQueueFull) {
		t.Fatalf("what waits for another try does not count: %v", err)
	}
	if err := r.Flush(within(t, 20*time.Millisecond)); err == nil {
		t.Fatal("flushed nothing")
	}
}

func TestAHungLeaderDelaysOnlyItsOwn(t *testing.T) {
	r := newRig(t, func(c *Config) { c.AttemptTimeout = patience })
	r.table.set(target(1, "hung", 1), target(2, "a", 1))
	var asked atomic.Int64
	r.serve(authority("hung", subject.AuthorityUnregister), func([]byte) message { asked.Add(1); return nil })
	r.serve(authority("a", subject.AuthorityUnregister), func(data []byte) message {
		return okGroups(len(parse[wirepb.SessionBatch](t, data).Groups))
	})
	r.run()
	_ = r.Unregister("eu/main/alice", identity.NewSessionID(1), 1)
	natstest.Eventually(t, patience, "the hung one is asked", func() bool { return asked.Load() == 1 })
	_ = r.Unregister("eu/main/alice", identity.NewSessionID(2), 1)
	natstest.Eventually(t, patience/2, "the other answers", func() bool { return r.Unregistering() == 1 })
}
