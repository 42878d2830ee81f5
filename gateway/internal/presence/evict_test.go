package presence

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

func conflictAt(gateway string) Conflict {
	return Conflict{UID: "eu/main/alice", Gateway: gateway, Boot: "b", Session: identity.NewSessionID(22), OwnerSeq: 3}
}

func TestI1_EvictConfirmsWhatCanReceiveNothing(t *testing.T) {
	r := newRig(t)
	conflicts := []Conflict{conflictAt("g1"), conflictAt("dead"), conflictAt("g1"), conflictAt("g2"), conflictAt("g1")}
	answers := []wirepb.ActionResult{
		wirepb.ActionResult_ACTION_RESULT_DONE, wirepb.ActionResult_ACTION_RESULT_GONE, wirepb.ActionResult_ACTION_RESULT_UNSPECIFIED,
	}
	var asked atomic.Int64
	r.serve(subject.Owner("g1", "b", subject.OwnerAction), func(data []byte) message {
		req := parse[wirepb.OwnerAction](t, data)
		if req.Kind != wirepb.ActionKind_ACTION_KIND_REPLACE || req.GatewayId != "g1" || req.BootId != "b" || req.DeadlineMs == 0 {
			t.Errorf("asked for %+v", req)
		}
		if asked.Add(1) == 1 {
			return &wirepb.OwnerActionReply{Results: answers}
		}
		if len(req.Sessions) != 1 || identity.SessionID(req.Sessions[0].SessionId) != conflicts[4].Session || req.Sessions[0].OwnerSeq != 3 {
			t.Errorf("asked again for %+v", req.Sessions)
		}
		return &wirepb.OwnerActionReply{Results: answers[:1]}
	})
	var lost atomic.Int64
	r.serve(subject.Owner("g2", "b", subject.OwnerAction), func([]byte) message {
		if lost.Add(1) == 1 {
			return &wirepb.OwnerActionReply{Results: answers} // does not fit the question
		}
		return &wirepb.OwnerActionReply{Results: answers[1:2]}
	})
	got := r.Evict(within(t, patience), conflicts)
	if want := []Outcome{Closed, Dead, Gone, Gone, Closed}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestI1_ASilentOwnerConfirmsNothing(t *testing.T) {
	r := newRig(t)
	r.serve(subject.Owner("hung", "b", subject.OwnerAction), func([]byte) message { return nil })
	ctx := within(t, 300*time.Millisecond)
	got := r.Evict(ctx, []Conflict{conflictAt("hung")})
	if ctx.Err() == nil || got[0].Confirmed() {
		t.Fatalf("got %v before the deadline", got)
	}
}

func TestEvictNobody(t *testing.T) {
	r := newRig(t)
	if got := r.Evict(within(t, patience), nil); len(got) != 0 {
		t.Fatalf("got %v", got)
	}
}
