package owner

import (
	"slices"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/shared/deadline"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

const (
	done      = wirepb.ActionResult_ACTION_RESULT_DONE
	gone      = wirepb.ActionResult_ACTION_RESULT_GONE
	unchanged = wirepb.ActionResult_ACTION_RESULT_UNCHANGED
	refused   = wirepb.ActionResult_ACTION_RESULT_REFUSED
	failed    = wirepb.ActionResult_ACTION_RESULT_FAILED
)

func TestI1_ACloseIsConfirmedWhenNothingCanBeReceived(t *testing.T) {
	r := newRig(t)
	s := r.session("eu/main/alice")
	s.hold = make(chan struct{})
	in, pushes := r.inbox(), r.inbox()
	r.act(in, &wirepb.OwnerAction{Kind: wirepb.ActionKind_ACTION_KIND_REPLACE, Sessions: []*wirepb.Address{s.address()}})
	natstest.Eventually(t, patience, "the action", func() bool { return r.counts.actions.Load() == 1 })
	r.push(pushes, &wirepb.Push{}, s.address()) // still open: pushes go on meanwhile
	if got := pushes.results()[0].Delivery; got != wirepb.Delivery_DELIVERY_QUEUED {
		t.Fatalf("pushed: %v", got)
	}
	in.silent()
	close(s.hold)
	if got := in.actions(); !slices.Equal(got, []wirepb.ActionResult{done}) {
		t.Fatalf("got %v", got)
	}
	r.push(pushes, &wirepb.Push{}, s.address())
	if got := pushes.results()[0].Delivery; got != wirepb.Delivery_DELIVERY_STALE || len(s.received()) != 1 {
		t.Fatalf("after the confirmation: %v, %d received", got, len(s.received()))
	}
}

func TestEndings(t *testing.T) {
	for kind, want := range map[wirepb.ActionKind]Ending{
		wirepb.ActionKind_ACTION_KIND_REPLACE:      {fault.CloseReplaced, DuplicateLogin, "why"},
		wirepb.ActionKind_ACTION_KIND_KICK:         {fault.CloseForcedLogout, Kick, "why"},
		wirepb.ActionKind_ACTION_KIND_FORCE_LOGOUT: {fault.CloseForcedLogout, ForceLogout, "why"},
	} {
		r := newRig(t)
		s, bystander := r.session("eu/main/alice"), r.session("eu/main/alice")
		foreign := s.address()
		foreign.Uid = "eu/main/bob"
		in := r.inbox()
		r.act(in, &wirepb.OwnerAction{Kind: kind, Reason: "why", Sessions: []*wirepb.Address{foreign, s.address(), {}}})
		if got := in.actions(); !slices.Equal(got, []wirepb.ActionResult{gone, done, gone}) {
			t.Fatalf("%v: got %v", kind, got)
		}
		if len(s.endings) != 1 || s.endings[0] != want || bystander.Ended() {
			t.Errorf("%v: ended with %+v", kind, s.endings)
		}
	}
}

func TestActionsThatAreNotServed(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxAddresses = 2 })
	s := r.session("eu/main/alice")
	to := []*wirepb.Address{s.address()}
	in := r.inbox()
	r.act(in, &wirepb.OwnerAction{Kind: wirepb.ActionKind_ACTION_KIND_KICK, Sessions: to, DeadlineMs: soon(-deadline.Skew - time.Second)})
	r.act(in, &wirepb.OwnerAction{Sessions: to})
	r.act(in, &wirepb.OwnerAction{Kind: 99, Group: "g", Sessions: to})
	r.act(in, &wirepb.OwnerAction{Kind: wirepb.ActionKind_ACTION_KIND_GROUP_JOIN, Group: "not a group", Sessions: to})
	r.act(in, &wirepb.OwnerAction{Kind: wirepb.ActionKind_ACTION_KIND_KICK, Sessions: []*wirepb.Address{to[0], to[0], to[0]}})
	r.sendRaw(subject.Owner("gw", "boot", subject.OwnerAction), in, []byte{0xff, 0xff})
	r.send(subject.Owner("gw", "boot", subject.OwnerAction), in, &wirepb.OwnerAction{
		GatewayId: "gw", BootId: "earlier", Kind: wirepb.ActionKind_ACTION_KIND_KICK, Sessions: to,
	})
	r.act(in, &wirepb.OwnerAction{Kind: wirepb.ActionKind_ACTION_KIND_GROUP_LEAVE, Group: "g", Sessions: to, DeadlineMs: soon(-time.Second)}) // a clock that is behind
	if got := in.actions(); !slices.Equal(got, []wirepb.ActionResult{unchanged}) {
		t.Fatalf("the first answer is %v, want that of the last request", got)
	}
	if l, m, d := r.late.Count(), r.counts.malformed.Load(), r.counts.misdirected.Load(); l != 1 || m != 5 || d != 1 || s.Ended() {
		t.Fatalf("%d late, %d malformed, %d misdirected, ended %v", l, m, d, s.Ended())
	}
}

func TestGroupActions(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxGroupsPerSession, c.MaxGroups = 1, 2 })
	s, ended := r.session("eu/main/alice"), r.session("eu/main/bob")
	ended.End(Ending{})
	to := []*wirepb.Address{s.address(), ended.address()}
	in := r.inbox()
	for _, step := range []struct {
		kind  wirepb.ActionKind
		group string
		want  []wirepb.ActionResult
	}{
		{wirepb.ActionKind_ACTION_KIND_GROUP_JOIN, "one", []wirepb.ActionResult{done, gone}},
		{wirepb.ActionKind_ACTION_KIND_GROUP_JOIN, "one", []wirepb.ActionResult{unchanged, gone}},
		{wirepb.ActionKind_ACTION_KIND_GROUP_JOIN, "two", []wirepb.ActionResult{refused, gone}},
		{wirepb.ActionKind_ACTION_KIND_GROUP_LEAVE, "two", []wirepb.ActionResult{unchanged, unchanged}},
		{wirepb.ActionKind_ACTION_KIND_GROUP_LEAVE, "one", []wirepb.ActionResult{done, unchanged}},
	} {
		r.act(in, &wirepb.OwnerAction{Kind: step.kind, Group: step.group, Sessions: to})
		if got := in.actions(); !slices.Equal(got, step.want) {
			t.Fatalf("%v %s: got %v, want %v", step.kind, step.group, got, step.want)
		}
	}
	if r.groups.Len() != 0 {
		t.Fatalf("%d groups are left", r.groups.Len())
	}
	for i, want := range []wirepb.ActionResult{done, done, failed} { // the gateway's own bound may pass
		other := r.session("eu/main/carol")
		defer r.groups.LeaveAll(other)
		r.act(in, &wirepb.OwnerAction{
			Kind: wirepb.ActionKind_ACTION_KIND_GROUP_JOIN, Group: []string{"one", "two", "three"}[i], Sessions: []*wirepb.Address{other.address()},
		})
		if got := in.actions(); !slices.Equal(got, []wirepb.ActionResult{want}) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}
