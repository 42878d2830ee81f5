package owner

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/shared/deadline"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

func (r *rig) join(group string, sessions ...*fakeSession) {
	r.t.Helper()
	for _, s := range sessions {
		if _, err := r.groups.Join(s, group); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := r.nc.Flush(); err != nil { // the server knows
		r.t.Fatal(err)
	}
}

func (r *rig) pushGroup(in *inbox, id uint64, group string, p *wirepb.Push) {
	r.t.Helper()
	r.send(subject.Group(group), in, &wirepb.GroupPush{Id: id, Group: group, Push: p})
}

func (r *rig) sync(in *inbox, id uint64, group string) {
	r.t.Helper()
	r.send(subject.GatewaysGroupSync, in, &wirepb.GroupSync{Id: id, Group: group, DeadlineMs: soon(patience)})
}

func TestGroupFanOut(t *testing.T) {
	r := newRig(t)
	a, b, spared, outside := r.session("eu/main/a"), r.session("eu/main/b"), r.session("eu/main/c"), r.session("eu/main/d")
	full := r.session("eu/main/e")
	full.set(Overflow)
	r.join("room", a, b, spared, full)
	in := r.inbox()
	r.pushGroup(in, 5, "room", &wirepb.Push{Route: 100, Payload: []byte("1"), ExcludeSessions: [][]byte{spared.id[:]}})
	r.sync(in, 5, "room")
	reply := in.group()
	got := map[identity.SessionID]wirepb.Delivery{}
	for _, s := range reply.Sessions {
		got[identity.SessionID(s.SessionId)] = s.Delivery
		if s.GatewayId != "gw" || s.Uid == "" {
			t.Errorf("result %+v", s)
		}
	}
	want := map[identity.SessionID]wirepb.Delivery{
		a.id: wirepb.Delivery_DELIVERY_QUEUED, b.id: wirepb.Delivery_DELIVERY_QUEUED, full.id: wirepb.Delivery_DELIVERY_OVERFLOW,
	}
	if !maps.Equal(got, want) || reply.Final || reply.Id != 5 || reply.GatewayId != "gw" || reply.BootId != "boot" {
		t.Fatalf("got %v final %v", got, reply.Final)
	}
	if last := in.group(); !last.Final || last.Id != 5 || len(last.Sessions) != 0 {
		t.Fatalf("got %+v", last)
	}
	if len(a.received()) != 1 || len(spared.received()) != 0 || len(outside.received()) != 0 {
		t.Fatal("the wrong sessions received it")
	}
	if a.encoded[0] != b.encoded[0] {
		t.Fatal("encoded twice")
	}
}

func TestEveryGatewayAnswersASync(t *testing.T) {
	r := newRig(t)
	in := r.inbox()
	r.pushGroup(in, 1, "nobody", &wirepb.Push{})
	if none := in.next(); none.Header.Get("Status") != "503" { // the server's own answer
		t.Fatalf("got %+v", none)
	}
	r.sync(in, 1, "nobody")
	other, err := New(Config{Gateway: "gw2", Boot: "boot"}, r.nc, nobody{})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Stop)
	if reply := in.group(); !reply.Final || len(reply.Sessions) != 0 || reply.GatewayId != "gw" {
		t.Fatalf("got %+v", reply)
	}
	r.sync(in, 2, "nobody")
	answered := map[string]bool{in.group().GatewayId: true, in.group().GatewayId: true}
	if !answered["gw"] || !answered["gw2"] {
		t.Fatalf("answered: %v", answered)
	}
}

func TestI11_AGroupSyncIsAnsweredAfterThePushBeforeIt(t *testing.T) {
	r := newRig(t)
	s := r.session("eu/main/a")
	r.join("one", s)
	r.join("two", s)
	in := r.inbox()
	const rounds = 300
	for i := range uint64(rounds) {
		group := []string{"one", "two"}[i%2]
		r.pushGroup(in, i, group, &wirepb.Push{Payload: fmt.Append(nil, i)})
		r.sync(in, i, group)
	}
	for i := range uint64(rounds) {
		if first := in.group(); first.Id != i || first.Final || len(first.Sessions) != 1 {
			t.Fatalf("round %d: %+v", i, first)
		}
		if last := in.group(); last.Id != i || !last.Final {
			t.Fatalf("round %d: %+v", i, last)
		}
	}
	for i, m := range s.received() {
		if string(m.Payload) != fmt.Sprint(i) {
			t.Fatalf("push %s came as number %d", m.Payload, i)
		}
	}
}

func TestAGroupsLastWordFollowsItsAcknowledgements(t *testing.T) {
	r := newRig(t)
	a, b, binary := r.session("eu/main/a"), r.session("eu/main/b"), r.session("eu/main/c")
	binary.codec = frame.ELR2
	r.join("room", a, b, binary)
	in := r.inbox()
	r.pushGroup(in, 1, "room", &wirepb.Push{Ack: true, AckDeadlineMs: soon(300 * time.Millisecond)})
	r.sync(in, 1, "room")
	r.pushGroup(in, 2, "room", &wirepb.Push{}) // another push is not held up
	r.sync(in, 2, "room")
	if first := in.group(); first.Id != 1 || len(first.Sessions) != 1 || first.Sessions[0].Delivery != wirepb.Delivery_DELIVERY_QUEUED {
		t.Fatalf("got %+v", first)
	}
	if next := in.group(); next.Id != 2 || len(next.Sessions) != 3 {
		t.Fatalf("got %+v", next)
	}
	if next := in.group(); next.Id != 2 || !next.Final {
		t.Fatalf("got %+v", next)
	}
	a.acknowledge(0)
	if got := in.group(); got.Id != 1 || got.Final || identity.SessionID(got.Sessions[0].SessionId) != a.id || got.Sessions[0].Delivery != wirepb.Delivery_DELIVERY_ACKED {
		t.Fatalf("got %+v", got)
	}
	if got := in.group(); got.Final || identity.SessionID(got.Sessions[0].SessionId) != b.id || got.Sessions[0].Delivery != wirepb.Delivery_DELIVERY_ACK_TIMEOUT {
		t.Fatalf("got %+v", got)
	}
	if got := in.group(); got.Id != 1 || !got.Final {
		t.Fatalf("got %+v", got)
	}
	if len(r.waits.pushes) != 0 || r.acks.open.Load() != 0 {
		t.Fatal("waits are left")
	}
}

func TestGroupPushWithoutReply(t *testing.T) {
	r := newRig(t)
	s := r.session("eu/main/a")
	r.join("room", s)
	r.pushGroup(nil, 1, "room", &wirepb.Push{Ack: true})
	natstest.Eventually(t, patience, "the push", func() bool { return len(s.received()) == 1 })
	if r.acks.open.Load() != 0 {
		t.Fatal("nobody waits, but a wait is open")
	}
}

func TestMalformedGroupMessagesAreIgnored(t *testing.T) {
	r := newRig(t)
	s := r.session("eu/main/a")
	r.join("room", s)
	in := r.inbox()
	r.sendRaw(subject.Group("room"), in, []byte{0xff})
	r.pushGroup(in, 1, "room", nil)
	r.send(subject.Group("room"), in, &wirepb.GroupPush{Group: "other", Push: &wirepb.Push{}})
	r.sendRaw(subject.GatewaysGroupSync, in, []byte{0xff})
	r.send(subject.GatewaysGroupSync, nil, &wirepb.GroupSync{Id: 4})
	r.send(subject.GatewaysGroupSync, in, &wirepb.GroupSync{Id: 5, DeadlineMs: soon(-deadline.Skew - time.Second)})
	r.sync(in, 6, "room")
	if reply := in.group(); reply.Id != 6 {
		t.Fatalf("answered %+v", reply)
	}
	if m, l := r.counts.malformed.Load(), r.late.Count(); m != 5 || l != 1 || len(s.received()) != 0 {
		t.Fatalf("%d malformed, %d late, %d received", m, l, len(s.received()))
	}
}

func TestAnEndedSessionIsInNoGroup(t *testing.T) {
	r := newRig(t)
	s := r.session("eu/main/a")
	before := r.nc.NumSubscriptions()
	r.join("one", s)
	r.join("two", s)
	if got := r.groups.Of(s.id); !slices.Equal(got, []string{"one", "two"}) || r.nc.NumSubscriptions() != before+2 {
		t.Fatalf("in %v, %d subscriptions", got, r.nc.NumSubscriptions()-before)
	}
	s.End(Ending{})
	in := r.inbox()
	r.pushGroup(in, 1, "one", &wirepb.Push{}) // before anybody told the groups
	r.sync(in, 1, "one")
	if reply := in.group(); !reply.Final || r.groups.Len() != 0 || r.nc.NumSubscriptions() != before {
		t.Fatalf("%+v; %d groups, %d subscriptions", reply, r.groups.Len(), r.nc.NumSubscriptions()-before)
	}
	r.groups.LeaveAll(s)
	if _, err := r.groups.Join(s, "one"); !errors.Is(err, fault.ErrNotFound) || r.groups.Len() != 0 {
		t.Fatalf("joined after the end: %v", err)
	}
}

type fakeSubscription struct{ open *int }

func (s fakeSubscription) Unsubscribe() error    { *s.open--; return nil }
func (s fakeSubscription) Dropped() (int, error) { return 0, nil }

func fakeGroups(cfg Config, open *int) *Groups {
	return newGroups(cfg, func(string) (subscription, error) {
		*open++
		return fakeSubscription{open}, nil
	}, &counts{})
}

func TestI12_GroupsAreBounded(t *testing.T) {
	open := 0
	g := fakeGroups(Config{MaxGroups: 2, MaxGroupsPerSession: 1}, &open)
	s := make([]*fakeSession, 4)
	for i := range s {
		s[i] = &fakeSession{id: identity.NewSessionID(0)}
	}
	for i, step := range []struct {
		s    *fakeSession
		name string
		want error
	}{
		{s[0], "a", nil}, {s[0], "b", fault.ErrForbidden}, {s[1], "b", nil}, {s[2], "c", fault.ErrQueueFull},
		{s[2], "a", nil}, {s[3], "no group!", fault.ErrInvalidRequest},
	} {
		if _, err := g.Join(step.s, step.name); !errors.Is(err, step.want) {
			t.Fatalf("step %d: %v, want %v", i, err, step.want)
		}
	}
	g.stop()
	if _, err := g.Join(s[3], "a"); !errors.Is(err, fault.ErrUnavailable) || open != 0 {
		t.Fatalf("after the stop: %v, %d subscriptions", err, open)
	}
	failing := newGroups(Config{MaxGroups: 2, MaxGroupsPerSession: 1}, func(string) (subscription, error) { return nil, errors.New("closed") }, &counts{})
	if _, err := failing.Join(s[0], "a"); !errors.Is(err, fault.ErrUnavailable) || failing.Len() != 0 {
		t.Fatalf("without a connection: %v", err)
	}
}

// TestGroupsModel compares with a set of pairs: members and subscriptions always match it.
func TestGroupsModel(t *testing.T) {
	type pair struct{ session, group int }
	rapid.Check(t, func(t *rapid.T) {
		open := 0
		g := fakeGroups(Config{MaxGroups: 100, MaxGroupsPerSession: 100}, &open)
		sessions := make([]*fakeSession, 5)
		for i := range sessions {
			sessions[i] = &fakeSession{id: identity.NewSessionID(uint8(i))}
		}
		model := map[pair]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			p := pair{rapid.IntRange(0, 4).Draw(t, "session"), rapid.IntRange(0, 3).Draw(t, "group")}
			name := fmt.Sprint("g", p.group)
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0, 1:
				changed, err := g.Join(sessions[p.session], name)
				if err != nil || changed == model[p] {
					t.Fatalf("join: %v %v", changed, err)
				}
				model[p] = true
			case 2, 3:
				if g.Leave(sessions[p.session], name) != model[p] {
					t.Fatal("leave")
				}
				delete(model, p)
			case 4:
				g.LeaveAll(sessions[p.session])
				maps.DeleteFunc(model, func(k pair, _ bool) bool { return k.session == p.session })
			}
			nonEmpty := map[int]bool{}
			for k := range model {
				nonEmpty[k.group] = true
			}
			if open != len(nonEmpty) || g.Len() != len(nonEmpty) {
				t.Fatalf("%d subscriptions, %d groups, want %d", open, g.Len(), len(nonEmpty))
			}
			for k := range 4 {
				for _, m := range g.members(nil, fmt.Sprint("g", k)) {
					if !model[pair{int(m.ID().HashSlot()), k}] {
						t.Fatal("a member too many")
					}
				}
			}
			for k := range model {
				if !slices.Contains(g.members(nil, fmt.Sprint("g", k.group)), Session(sessions[k.session])) {
					t.Fatal("a member is missing")
				}
			}
		}
	})
}

// unheard is the subscription of a group without NATS.
type unheard struct{ subscription }

// BenchmarkGroupFanOut is one push to a group with all its members here: decode, push to each, and
// encode what became of it.
func BenchmarkGroupFanOut(b *testing.B) {
	for _, members := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("%d_sessions", members), func(b *testing.B) {
			o, err := New(Config{Gateway: "g", Boot: "b"}, nil, nobody{})
			if err != nil {
				b.Fatal(err)
			}
			o.groups = newGroups(o.cfg, func(string) (subscription, error) { return unheard{}, nil }, &o.counts)
			for i := range members {
				s := &sink{fakeSession{id: identity.NewSessionID(uint8(i)), uid: identity.UID(fmt.Sprintf("eu/main/player-%08d", i))}}
				if _, err := o.groups.Join(s, "all"); err != nil {
					b.Fatal(err)
				}
			}
			data, err := (&wirepb.GroupPush{Group: "all", Id: 1, Push: &wirepb.Push{Route: 100, Payload: []byte(`{"text":"hello"}`)}}).MarshalVT()
			if err != nil {
				b.Fatal(err)
			}
			msg := &nats.Msg{Subject: subject.Group("all"), Reply: "inbox", Data: data}
			var scratch []Session
			b.ReportAllocs()
			for b.Loop() {
				scratch = o.onGroupPush(msg, scratch[:0])
			}
			if len(scratch) != members {
				b.Fatal(len(scratch))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(members), "ns/session")
		})
	}
}
