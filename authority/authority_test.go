package authority_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/deadline"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

const (
	alice identity.UID = "eu/main/alice"
	bob   identity.UID = "eu/main/bob"
	carol identity.UID = "eu/main/carol"
)

func TestMainJob(t *testing.T) {
	s := ready(t)
	g1, g2 := s.owner("g1"), s.owner("g2")
	phone, tablet := g1.login(alice, "phone"), g2.login(alice, "tablet")
	desk := g2.login(bob, "desk")

	r := ask[api.PushReply](s, subject.Push, push(alice, carol, bob))
	if r.Delivered != 3 || len(r.Sessions) != 3 || !slices.Equal(r.Offline, []identity.UID{carol}) || len(r.Unknown)+len(r.Errors) != 0 || r.Acked != nil {
		t.Fatalf("%+v", r)
	}
	wantPushes(t, g1, phone, `{"n":1}`)
	wantPushes(t, g2, tablet, `{"n":1}`)
	wantPushes(t, g2, desk, `{"n":1}`)

	one := ask[api.PushReply](s, s.userSubject(alice, subject.UserPush), `{"route":100,"payload_b64":"AAE="}`)
	if one.Delivered != 2 || len(one.Sessions) != 2 || one.Sessions[0].Status != api.Queued {
		t.Fatalf("%+v", one)
	}
	wantPushes(t, g1, phone, `{"n":1}`, "\x00\x01")

	p := ask[api.UserPresence](s, s.userSubject(alice, subject.UserPresence), "")
	if p.UID != alice || p.Status != api.Online || len(p.Sessions) != 2 {
		t.Fatalf("%+v", p)
	}
	many := ask[api.PresenceReply](s, subject.Presence, api.PresenceRequest{Users: []identity.UID{carol, alice, carol}})
	if len(many.Users) != 3 || many.Users[0].Status != api.Offline || many.Users[1].Status != api.Online || many.Users[2].UID != carol {
		t.Fatalf("%+v", many)
	}
	sp := many.Users[1].Sessions
	i := slices.IndexFunc(sp, func(x api.SessionPresence) bool { return x.SessionID == phone.id })
	if i < 0 || sp[i].GatewayID != "g1" || sp[i].BootID != g1.node.Boot || sp[i].Device.ID != "phone" || sp[i].OwnerSeq != 1 || sp[i].Listener != "ws" {
		t.Fatalf("%+v", sp)
	}

	if k := ask[api.KickReply](s, subject.Kick, api.KickRequest{UID: alice, ExceptSession: phone.id, Reason: "bye"}); k.Kicked != 1 {
		t.Fatalf("%+v", k)
	}
	if k := ask[api.KickReply](s, subject.Kick, api.KickRequest{SessionID: phone.id}); k.Kicked != 1 {
		t.Fatalf("%+v", k)
	}
	if k := ask[api.KickReply](s, subject.Kick, api.KickRequest{SessionID: phone.id}); k.Kicked != 0 {
		t.Fatalf("%+v", k)
	}
	if g1.got(phone); len(g1.sessions) != 0 || len(g2.sessions) != 1 {
		t.Fatal("the owners still hold kicked sessions")
	}
}

func TestPushBySessionExcludeAndAck(t *testing.T) {
	s := ready(t)
	g := s.owner("g1")
	phone, tablet, desk := g.login(alice, "phone"), g.login(alice, "tablet"), g.login(bob, "desk")
	phone.acks = true

	r := ask[api.PushReply](s, subject.Push, map[string]any{
		"users": []identity.UID{alice}, "sessions": []identity.SessionID{phone.id, desk.id}, "route": 100, "payload": 1,
		"exclude_sessions": []identity.SessionID{tablet.id},
	})
	if r.Delivered != 2 || len(r.Sessions) != 2 || len(r.Offline) != 0 {
		t.Fatalf("%+v", r)
	}
	wantPushes(t, g, phone, "1")
	if got := g.got(tablet); len(got) != 0 {
		t.Fatalf("the excluded session got %q", got)
	}
	nobody := identity.NewSessionID(7)
	r = ask[api.PushReply](s, subject.Push, map[string]any{"sessions": []identity.SessionID{nobody}, "route": 100, "payload": 1})
	if len(r.Sessions) != 1 || r.Sessions[0].Status != api.Stale || r.Sessions[0].SessionID != nobody {
		t.Fatalf("%+v", r)
	}
	r = ask[api.PushReply](s, s.userSubject(alice, subject.UserPush), `{"route":100,"payload":2,"ack":true,"ack_timeout_ms":100}`)
	if r.Delivered != 1 || r.Acked == nil || *r.Acked != 1 || len(r.Sessions) != 2 {
		t.Fatalf("%+v", r)
	}
}

func TestGroups(t *testing.T) {
	s := ready(t)
	g1, g2 := s.owner("g1"), s.owner("g2")
	phone, desk := g1.login(alice, "phone"), g2.login(bob, "desk")
	g2.login(carol, "other")
	join := api.GroupRequest{Group: "raid", Users: []identity.UID{alice}, Sessions: []identity.SessionID{desk.id}}
	if r := ask[api.GroupReply](s, subject.GroupJoin, join); r.Changed != 2 {
		t.Fatalf("%+v", r)
	}
	if r := ask[api.GroupReply](s, subject.GroupJoin, join); r.Changed != 0 {
		t.Fatalf("joined twice: %+v", r)
	}
	r := ask[api.PushReply](s, subject.Push, map[string]any{"groups": []string{"raid", "nobody"}, "users": []identity.UID{"eu/main/off"}, "route": 100, "payload": 1})
	if r.Delivered != 2 || len(r.Sessions) != 2 || len(r.Errors) != 0 || len(r.Offline) != 1 {
		t.Fatalf("%+v", r)
	}
	wantPushes(t, g1, phone, "1")
	wantPushes(t, g2, desk, "1")
	if r := ask[api.GroupReply](s, subject.GroupLeave, join); r.Changed != 2 {
		t.Fatalf("%+v", r)
	}
}

// TestI11_OrderOfOnePublisher: pushes on one connection arrive in order, on one per-user subject,
// whether the publisher waits for replies or not.
func TestI11_OrderOfOnePublisher(t *testing.T) {
	s := ready(t)
	g := s.owner("g1")
	c := g.login(alice, "phone")
	const n = 2000
	var want []string
	for i := range n {
		if err := s.nc.Publish(s.userSubject(alice, subject.UserPush), fmt.Appendf(nil, `{"route":100,"payload":%d}`, i)); err != nil {
			t.Fatal(err)
		}
		want = append(want, strconv.Itoa(i))
	}
	natstest.Eventually(t, patience, "all pushes", func() bool { return len(g.got(c)) == n })
	if got := g.got(c); !slices.Equal(got, want) {
		t.Fatalf("out of order: %q", got)
	}
}

// TestI3_StaleTargetChangesNothing: every field of the fence counts, for single calls and batches.
func TestI3_StaleTargetChangesNothing(t *testing.T) {
	s := ready(t)
	g := s.owner("g1")
	h := slot.OfUID(alice)
	good := s.target(h)
	c := g.connect(alice, "phone")
	g.drop(c) // only the calls below know it
	for name, edit := range map[string]func(*slot.Target){
		"older term":   func(t *slot.Target) { t.Term-- },
		"other node":   func(t *slot.Target) { t.LeaderNode = "x" },
		"other boot":   func(t *slot.Target) { t.LeaderBoot = "x" },
		"other slot":   func(t *slot.Target) { t.ID++ },
		"older epoch":  func(t *slot.Target) { t.ConfigEpoch-- },
		"newer term":   func(t *slot.Target) { t.Term++ },
		"newer epoch":  func(t *slot.Target) { t.ConfigEpoch++ },
		"another hash": func(t *slot.Target) { t.Hash++ },
	} {
		t.Run(name, func(t *testing.T) {
			bad := good
			edit(&bad)
			var reg wirepb.RegisterReply
			ok := s.call(subject.Slot(h, subject.SlotRegister), &wirepb.RegisterRequest{Target: wire.Target(bad), Route: c.route, DeadlineMs: soon()}, &reg, 300*time.Millisecond)
			switch {
			case bad.Newer(good): // a leader that is behind must not speak for the slot
				if ok {
					t.Fatalf("answered %v", &reg)
				}
			case bad.Hash != good.Hash:
				if reg.Status != wirepb.Status_STATUS_INVALID {
					t.Fatalf("answered %v", &reg)
				}
			default:
				cur, err := wire.ParseTarget(reg.Current)
				if !ok || reg.Status != wirepb.Status_STATUS_STALE_TARGET || err != nil || !cur.SameFence(good) {
					t.Fatalf("answered %v", &reg)
				}
			}
			var res wirepb.RestoreReply
			if !s.call(subject.Authority(good.LeaderNode, good.LeaderBoot, subject.AuthorityRestore), &wirepb.RestoreRequest{
				GatewayId: g.node.ID, BootId: g.node.Boot, DeadlineMs: soon(),
				Groups: []*wirepb.RestoreGroup{{Target: wire.Target(bad), Routes: []*wirepb.Route{c.route}}},
			}, &res, patience) || res.Groups[0].Status == wirepb.Status_STATUS_OK {
				t.Fatalf("restored: %v", &res)
			}
		})
	}
	if p := ask[api.UserPresence](s, s.userSubject(alice, subject.UserPresence), ""); p.Status != api.Offline {
		t.Fatalf("a stale target changed something: %+v", p)
	}
}

// TestLateCallsAreDropped: what arrives after its deadline is not done.
func TestLateCallsAreDropped(t *testing.T) {
	s := ready(t)
	g := s.owner("g1")
	c := g.connect(alice, "phone")
	h := slot.OfUID(alice)
	var reg wirepb.RegisterReply
	if s.call(subject.Slot(h, subject.SlotRegister), &wirepb.RegisterRequest{
		Target: wire.Target(s.target(h)), Route: c.route, DeadlineMs: time.Now().Add(-deadline.Skew - time.Second).UnixMilli(),
	}, &reg, 200*time.Millisecond) {
		t.Fatalf("answered %v", &reg)
	}
	// A gateway whose clock is behind is served.
	if !s.call(subject.Slot(h, subject.SlotRegister), &wirepb.RegisterRequest{
		Target: wire.Target(s.target(h)), Route: c.route, DeadlineMs: time.Now().Add(-2 * time.Second).UnixMilli(),
	}, &reg, patience) || reg.Status != wirepb.Status_STATUS_OK {
		t.Fatalf("a call by a clock that is behind: %v", &reg)
	}
	kick := wirepb.AuthorityActRequest{
		Groups: []*wirepb.UserGroup{{Target: wire.Target(s.target(h)), Uids: []string{string(alice)}}},
		Kind:   wirepb.ActionKind_ACTION_KIND_KICK, DeadlineMs: time.Now().Add(-2 * time.Second).UnixMilli(),
	}
	g.login(alice, "tablet")
	var act wirepb.AuthorityActReply
	target := s.target(h)
	if !s.call(subject.Authority(target.LeaderNode, target.LeaderBoot, subject.AuthorityAct), &kick, &act, patience) ||
		len(act.Groups) != 1 || act.Groups[0].Done == 0 {
		t.Fatalf("a kick by a clock that is behind: %v", &act)
	}
}

// TestStaleRoutesAreRemoved: a session that its owner does not know, and every session of an owner
// that is gone.
func TestStaleRoutesAreRemoved(t *testing.T) {
	s := ready(t)
	g1, g2 := s.owner("g1"), s.owner("g2")
	phone := g1.login(alice, "phone")
	g1.login(alice, "tablet")
	g2.login(bob, "desk")
	g1.drop(phone)
	r := ask[api.PushReply](s, subject.Push, push(alice))
	if r.Delivered != 1 || len(r.Sessions) != 2 {
		t.Fatalf("%+v", r)
	}
	r = ask[api.PushReply](s, subject.Push, push(alice))
	if r.Delivered != 1 || len(r.Sessions) != 1 {
		t.Fatalf("the stale route is still there: %+v", r)
	}
	g2.stop()
	natstest.Eventually(t, patience, "bob is offline", func() bool {
		return ask[api.UserPresence](s, s.userSubject(bob, subject.UserPresence), "").Status == api.Offline
	})
}

// TestI7_GatewayThatIsNotHeardIsNotGone: a gateway whose subjects nobody hears for a moment, and that
// says that it lives, keeps its users; what was meant for them is an error, also a kick.
func TestI7_GatewayThatIsNotHeardIsNotGone(t *testing.T) {
	s := ready(t)
	g := s.owner("g1")
	phone := g.login(alice, "phone")
	g.unhear()
	r := ask[api.PushReply](s, subject.Push, push(alice))
	if r.Delivered+len(r.Sessions)+len(r.Offline) != 0 || len(r.Errors) != 1 || r.Errors[0].UID != alice || r.Errors[0].Code != fault.Timeout {
		t.Fatalf("%+v", r)
	}
	if k, err := try[api.KickReply](s, subject.Kick, api.KickRequest{UID: alice}); !errors.Is(err, fault.ErrTimeout) {
		t.Fatalf("kicked: %+v, %v", k, err)
	}
	if p := ask[api.UserPresence](s, s.userSubject(alice, subject.UserPresence), ""); p.Status != api.Online {
		t.Fatalf("%+v", p)
	}
	g.hear()
	if r := ask[api.PushReply](s, subject.Push, push(alice)); r.Delivered != 1 {
		t.Fatalf("%+v", r)
	}
	wantPushes(t, g, phone, `{"n":1}`)
	if k := ask[api.KickReply](s, subject.Kick, api.KickRequest{UID: alice}); k.Kicked != 1 {
		t.Fatalf("%+v", k)
	}
}

// TestSilentOwner: an owner that hangs costs its users an error, and nobody else anything.
func TestSilentOwner(t *testing.T) {
	s := ready(t)
	g1, g2 := s.owner("g1"), s.owner("g2")
	g1.login(alice, "phone")
	g2.login(bob, "desk")
	g1.setSilent(true)
	r := ask[api.PushReply](s, subject.Push, push(alice, bob))
	if r.Delivered != 1 || len(r.Errors) != 1 || r.Errors[0] != (api.UserError{UID: alice, Code: fault.Timeout}) {
		t.Fatalf("%+v", r)
	}
	if _, err := try[api.KickReply](s, subject.Kick, api.KickRequest{UID: alice}); !errors.Is(err, fault.ErrTimeout) {
		t.Fatalf("kick: %v", err)
	}
}

func TestBadRequests(t *testing.T) {
	s := ready(t)
	for _, c := range []struct{ subj, body string }{
		{subject.Push, `{"users":["eu/main/a"],"route":100,"payload":1,"colour":1}`},
		{subject.Push, `{"users":["alice"],"route":100,"payload":1}`},
		{subject.Push, `hello`},
		{subject.Presence, `{}`},
		{subject.Kick, `{}`},
		{subject.GroupJoin, `{"group":"a b","users":["eu/main/a"]}`},
		{subject.Slots, `{"x":1}`},
		{subject.Nodes, `[]`},
		{s.userSubject(alice, subject.UserPush), `{"users":["eu/main/a"],"route":100,"payload":1}`},
		{s.userSubject(alice, subject.UserPush), ``},
		{s.userSubject(alice, subject.UserPresence), `{"x":1}`},
		{subject.Prefix + "user.eu.ma$in.alice.push", `{"route":100,"payload":1}`},
	} {
		if _, err := try[map[string]any](s, c.subj, c.body); !errors.Is(err, fault.ErrInvalidRequest) {
			t.Errorf("%s %s: %v", c.subj, c.body, err)
		}
	}
}
