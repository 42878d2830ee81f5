package presence

import (
	"context"
	"errors"
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

// leaderAt answers registers at exactly one term, and names its target to others.
func leaderAt(t *testing.T, now slot.Target, seen *atomic.Int64) func([]byte) message {
	return func(data []byte) message {
		req := parse[wirepb.RegisterRequest](t, data)
		seen.Add(1)
		if asked, err := wire.ParseTarget(req.Target); err != nil || !asked.SameFence(now) {
			return &wirepb.RegisterReply{Status: wirepb.Status_STATUS_STALE_TARGET, Current: wire.Target(now)}
		}
		return &wirepb.RegisterReply{Status: wirepb.Status_STATUS_OK, Candidate: 7}
	}
}

func TestI3_RegisterFollowsAStaleTarget(t *testing.T) {
	r := newRig(t)
	var seen atomic.Int64
	now := target(22, "new", 5)
	r.table.set(target(22, "old", 4))
	r.serve(subject.Slot(22, subject.SlotRegister), leaderAt(t, now, &seen))
	got, err := r.Register(within(t, patience), record(22))
	if err != nil {
		t.Fatal(err)
	}
	if !got.Target.SameFence(now) || got.Candidate != 7 || seen.Load() != 2 {
		t.Fatalf("registered %+v after %d requests", got, seen.Load())
	}
	if _, err := r.Register(within(t, patience), record(22)); err != nil || seen.Load() != 3 {
		t.Fatalf("the learnt target was not kept: %v after %d requests", err, seen.Load())
	}
}

func TestRegisterWaitsForALeader(t *testing.T) {
	r := newRig(t)
	var seen atomic.Int64
	now := target(3, "a", 1)
	r.serve(subject.Slot(3, subject.SlotRegister), leaderAt(t, now, &seen))
	result := make(chan error, 1)
	go func() {
		_, err := r.Register(within(t, patience), record(3))
		result <- err
	}()
	natstest.Eventually(t, patience, "a retry", func() bool { return r.counts.retries.Load() > 0 })
	r.table.set(now)
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

func TestRegisterGivesUp(t *testing.T) {
	t.Run("at the deadline, with nobody there", func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.MaxAttempts = 1 << 20 })
		r.table.set(target(3, "a", 1))
		ctx := within(t, 50*time.Millisecond)
		if _, err := r.Register(ctx, record(3)); !errors.Is(err, fault.ErrUnavailable) {
			t.Fatalf("got %v", err)
		}
		if ctx.Err() == nil || r.counts.noResponders.Load() == 0 {
			t.Fatal("gave up early")
		}
	})
	t.Run("after MaxAttempts", func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.MaxAttempts = 3 })
		r.table.set(target(3, "a", 1))
		var seen atomic.Int64
		r.serve(subject.Slot(3, subject.SlotRegister), func([]byte) message {
			seen.Add(1)
			return &wirepb.RegisterReply{Status: wirepb.Status_STATUS_NOT_LEADER}
		})
		if _, err := r.Register(within(t, patience), record(3)); !errors.Is(err, fault.ErrUnavailable) || seen.Load() != 3 {
			t.Fatalf("got %v after %d requests", err, seen.Load())
		}
	})
	t.Run("when cancelled", func(t *testing.T) {
		r := newRig(t)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := r.Register(ctx, record(3)); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	})
}

func TestRegisterStatuses(t *testing.T) {
	for status, want := range map[wirepb.Status]error{
		wirepb.Status_STATUS_DUPLICATE:  fault.ErrDuplicateSession,
		wirepb.Status_STATUS_QUEUE_FULL: fault.ErrQueueFull,
		wirepb.Status_STATUS_FENCED:     ErrFenced,
		wirepb.Status_STATUS_INVALID:    fault.ErrInternal,
	} {
		t.Run(status.String(), func(t *testing.T) {
			r := newRig(t)
			r.table.set(target(3, "a", 1))
			r.serve(subject.Slot(3, subject.SlotRegister), func([]byte) message { return &wirepb.RegisterReply{Status: status} })
			if _, err := r.Register(within(t, patience), record(3)); !errors.Is(err, want) {
				t.Fatalf("got %v, want %v", err, want)
			}
		})
	}
}

func TestRegisterSendsTheWholeRoute(t *testing.T) {
	r := newRig(t)
	r.table.set(target(22, "a", 9))
	rec := record(22)
	rec.Device.Level = identity.LevelMaster
	var got atomic.Pointer[wirepb.RegisterRequest]
	other := identity.NewSessionID(22)
	r.serve(subject.Slot(22, subject.SlotRegister), func(data []byte) message {
		got.Store(parse[wirepb.RegisterRequest](t, data))
		return &wirepb.RegisterReply{Status: wirepb.Status_STATUS_OK, Candidate: 1, Conflicts: []*wirepb.Route{
			{Uid: "eu/main/alice", GatewayId: "g2", BootId: "b2", SessionId: other[:], OwnerSeq: 4},
			{Uid: "eu/main/alice", GatewayId: "g2", BootId: "b2", SessionId: []byte("short")},
			{Uid: "eu/main/alice", GatewayId: "not.a.node", BootId: "b2", SessionId: other[:]},
		}}
	})
	before := time.Now()
	reg, err := r.Register(within(t, patience), rec)
	if err != nil {
		t.Fatal(err)
	}
	route, deadline := got.Load().Route, time.UnixMilli(got.Load().DeadlineMs)
	if route.GatewayId != "gw" || route.BootId != "boot" || route.OwnerSeq != 1 || route.Listener != "ws" || route.DeviceId != "phone" ||
		route.DeviceLevel != wirepb.Level_LEVEL_MASTER || identity.SessionID(route.SessionId) != rec.Session ||
		route.ConnectedAtMs != rec.ConnectedAt.UnixMilli() || route.LastActiveMs != rec.LastActive.UnixMilli() {
		t.Errorf("route %+v", route)
	}
	if deadline.Before(before) || deadline.After(time.Now().Add(200*time.Millisecond)) {
		t.Errorf("deadline %v is not that of the attempt", deadline)
	}
	want := Conflict{UID: "eu/main/alice", Gateway: "g2", Boot: "b2", Session: other, OwnerSeq: 4}
	if len(reg.Conflicts) != 1 || reg.Conflicts[0] != want || r.counts.malformed.Load() != 2 {
		t.Errorf("conflicts %+v, %d malformed", reg.Conflicts, r.counts.malformed.Load())
	}
}

func TestMalformedAnswersAreTriedAgain(t *testing.T) {
	r := newRig(t)
	r.table.set(target(3, "a", 1))
	var seen atomic.Int64
	r.serve(subject.Slot(3, subject.SlotRegister), func([]byte) message {
		switch seen.Add(1) {
		case 1:
			return raw{0xff, 0xff, 0xff}
		case 2:
			return raw{} // no status
		}
		return &wirepb.RegisterReply{Status: wirepb.Status_STATUS_OK}
	})
	if _, err := r.Register(within(t, patience), record(3)); err != nil || r.counts.malformed.Load() != 2 {
		t.Fatalf("%v, %d malformed", err, r.counts.malformed.Load())
	}
}

func commitRig(t *testing.T) (*rig, Registration) {
	r := newRig(t)
	now := target(3, "a", 4)
	r.table.set(now)
	return r, Registration{Target: now, Candidate: 9, Session: identity.NewSessionID(3)}
}

func TestI1_CommitReportsUnconfirmedConflicts(t *testing.T) {
	r, reg := commitRig(t)
	rival := identity.NewSessionID(3)
	r.serve(subject.Slot(3, subject.SlotCommit), func(data []byte) message {
		req := parse[wirepb.CommitRequest](t, data)
		if req.Candidate != 9 || identity.SessionID(req.SessionId) != reg.Session {
			t.Errorf("commit of %d %x", req.Candidate, req.SessionId)
		}
		if len(req.Confirmed) == 1 && identity.SessionID(req.Confirmed[0]) == rival {
			return &wirepb.CommitReply{Status: wirepb.Status_STATUS_OK}
		}
		return &wirepb.CommitReply{Status: wirepb.Status_STATUS_CONFLICT, Conflicts: []*wirepb.Route{
			{Uid: "eu/main/alice", GatewayId: "g2", BootId: "b2", SessionId: rival[:], OwnerSeq: 1},
		}}
	})
	conflicts, err := r.Commit(within(t, patience), reg, nil)
	if err != nil || len(conflicts) != 1 || conflicts[0].Session != rival {
		t.Fatalf("got %+v %v", conflicts, err)
	}
	conflicts, err = r.Commit(within(t, patience), reg, []identity.SessionID{rival})
	if err != nil || len(conflicts) != 0 {
		t.Fatalf("got %+v %v", conflicts, err)
	}
}

func TestCommitIsRepeatedWhenItsAnswerIsLost(t *testing.T) {
	r, reg := commitRig(t)
	var seen atomic.Int64
	r.serve(subject.Slot(3, subject.SlotCommit), func([]byte) message {
		if seen.Add(1) == 1 {
			return nil
		}
		return &wirepb.CommitReply{Status: wirepb.Status_STATUS_OK}
	})
	if _, err := r.Commit(within(t, patience), reg, nil); err != nil || seen.Load() != 2 {
		t.Fatalf("%v after %d requests", err, seen.Load())
	}
}

func TestI3_CommitNeverMovesToAnotherTerm(t *testing.T) {
	for name, run := range map[string]func(*rig) *wirepb.CommitReply{
		"stale": func(*rig) *wirepb.CommitReply {
			return &wirepb.CommitReply{Status: wirepb.Status_STATUS_STALE_TARGET, Current: wire.Target(target(3, "b", 5))}
		},
		"not leader, the table moves": func(r *rig) *wirepb.CommitReply {
			r.table.set(target(3, "b", 5))
			return &wirepb.CommitReply{Status: wirepb.Status_STATUS_NOT_LEADER}
		},
		"candidate gone": func(*rig) *wirepb.CommitReply { return &wirepb.CommitReply{Status: wirepb.Status_STATUS_EXPIRED} },
	} {
		t.Run(name, func(t *testing.T) {
			r, reg := commitRig(t)
			r.serve(subject.Slot(3, subject.SlotCommit), func(data []byte) message {
				if req := parse[wirepb.CommitRequest](t, data); req.Target.LeaderTerm != 4 {
					t.Errorf("commit at term %d", req.Target.LeaderTerm)
				}
				return run(r)
			})
			if _, err := r.Commit(within(t, patience), reg, nil); !errors.Is(err, ErrExpired) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

func TestHintsOnlyMoveForward(t *testing.T) {
	r := newRig(t)
	r.table.set(target(3, "a", 4))
	for _, tt := range []struct {
		named *wirepb.Target
		want  string
	}{
		{wire.Target(target(3, "older", 3)), "a"},
		{wire.Target(target(4, "elsewhere", 9)), "a"},
		{&wirepb.Target{HashSlot: 3, LeaderTerm: 9, ConfigEpoch: 1}, "a"},
		{nil, "a"},
		{wire.Target(target(3, "b", 5)), "b"},
		{wire.Target(target(3, "older", 4)), "b"},
	} {
		r.learnWire(3, tt.named)
		if got, _ := r.target(3); got.LeaderNode != tt.want {
			t.Fatalf("after %v: %s, want %s", tt.named, got.LeaderNode, tt.want)
		}
	}
	r.table.set(target(3, "c", 6))
	if got, _ := r.target(3); got.LeaderNode != "c" {
		t.Fatalf("a hint hides a newer table: %v", got)
	}
}

func TestAHintToNobodyIsDropped(t *testing.T) {
	r := newRig(t)
	now := target(3, "a", 4)
	r.table.set(now)
	r.learn(target(3, "nobody", 9))
	var seen atomic.Int64
	// The slot's subject is the leader's, whatever the term: one that does not match is silent.
	r.serve(subject.Slot(3, subject.SlotRegister), func(data []byte) message {
		if req := parse[wirepb.RegisterRequest](t, data); req.Target.LeaderTerm != now.Term {
			return nil
		}
		return leaderAt(t, now, &seen)(data)
	})
	if got, err := r.Register(within(t, patience), record(3)); err != nil || !got.Target.SameFence(now) {
		t.Fatalf("got %+v %v", got, err)
	}
}

func TestAbortIsSentOnce(t *testing.T) {
	r, reg := commitRig(t)
	got := make(chan *wirepb.AbortRequest, 2)
	r.serve(subject.Slot(3, subject.SlotAbort), func(data []byte) message {
		got <- parse[wirepb.AbortRequest](t, data)
		return nil
	})
	r.Abort(reg)
	if req := <-got; req.Candidate != 9 || req.Target.LeaderTerm != 4 || req.DeadlineMs == 0 {
		t.Fatalf("got %+v", req)
	}
}
