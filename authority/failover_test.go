package authority_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard-io/switchyard/authority"
	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
)

// crowd logs users in over the gateways, enough to be in many slots.
func crowd(n int, owners ...*owner) (users []identity.UID) {
	for i := range n {
		u := identity.UID(fmt.Sprintf("eu/main/user%d", i))
		owners[i%len(owners)].login(u, "phone")
		users = append(users, u)
	}
	return users
}

// watch asks for everybody's presence until the test ends, and reports whoever is called offline.
func (s *site) watch(users []identity.UID) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			r, err := try[api.PresenceReply](s, subject.Presence, api.PresenceRequest{Users: users})
			if err != nil {
				continue
			}
			for _, u := range r.Users {
				if u.Status == api.Offline {
					s.t.Errorf("%s is called offline", u.UID)
					return
				}
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

func (s *site) allOnline(users []identity.UID) bool {
	r, err := try[api.PresenceReply](s, subject.Presence, api.PresenceRequest{Users: users})
	return err == nil && !slices.ContainsFunc(r.Users, func(u api.UserPresence) bool { return u.Status != api.Online || len(u.Sessions) != 1 })
}

func pair(t *testing.T) (s *site, a1, a2 *authority.Authority, stop1 func()) {
	t.Helper()
	s = newSite(t)
	a1, stop1 = s.start("a1", nil)
	a2, _ = s.start("a2", nil)
	s.await(a1)
	s.await(a2)
	natstest.Eventually(t, patience, "both lead", func() bool {
		leaders := map[string]bool{}
		for _, e := range ask[api.SlotsReply](s, subject.Slots, "").Slots {
			leaders[e.LeaderNode] = true
		}
		return leaders["a1"] && leaders["a2"]
	})
	return s, a1, a2, stop1
}

// TestI7_RestoreAfterANewTerm: the slots of a node that stops are led by the other, gateways
// restore, nobody is called offline meanwhile, and a push that met no leader waits and arrives.
func TestI7_RestoreAfterANewTerm(t *testing.T) {
	s, _, _, stop := pair(t)
	g1, g2 := s.owner("g1"), s.owner("g2")
	users := crowd(40, g1, g2)
	if !s.allOnline(users) {
		t.Fatal("not all are online before")
	}
	end := s.watch(users)
	before := s.target(slot.OfUID(users[0]))
	stop()
	r := ask[api.PushReply](s, subject.Push, push(users...))
	if r.Delivered != len(users) || len(r.Offline)+len(r.Unknown)+len(r.Errors) != 0 {
		t.Errorf("push over the failover: delivered %d, offline %v, unknown %v, errors %v", r.Delivered, r.Offline, r.Unknown, r.Errors)
	}
	natstest.Eventually(t, patience, "all are online again", func() bool { return s.allOnline(users) })
	end()
	after := s.target(slot.OfUID(users[0]))
	if after.LeaderNode != "a2" || before.LeaderNode == "a1" && after.Term <= before.Term {
		t.Fatalf("from %+v to %+v", before, after)
	}
}

// TestI7_MuteGatewayCostsItsOwnUsers: a gateway that lives and does not report after a new term costs
// its users the answer, and the users of others only the bounded wait of the failover, and the word
// that a kick has reached all their sessions.
func TestI7_MuteGatewayCostsItsOwnUsers(t *testing.T) {
	s, _, _, stop := pair(t)
	g1, g2 := s.owner("g1"), s.owner("g2")
	led := func(users []identity.UID) identity.UID {
		i := slices.IndexFunc(users, func(u identity.UID) bool { return s.target(slot.OfUID(u)).LeaderNode == "a1" })
		if i < 0 {
			t.Fatal("a1 leads nobody")
		}
		return users[i]
	}
	users := crowd(40, g1, g2)
	var heard, hidden []identity.UID
	for i, u := range users {
		if i%2 == 0 {
			heard = append(heard, u)
		} else {
			hidden = append(hidden, u)
		}
	}
	one, other := led(heard), led(hidden)
	g2.setMute(true)
	stop()
	natstest.Eventually(t, patience, "the wait of the failover is over", func() bool {
		return ask[api.PushReply](s, subject.Push, push(one)).Delivered == 1
	})
	began := time.Now()
	for range 10 {
		if r := ask[api.PushReply](s, subject.Push, push(one, other)); r.Delivered != 1 || !slices.Equal(r.Unknown, []identity.UID{other}) || len(r.Offline) > 0 {
			t.Fatalf("%+v", r)
		}
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Fatalf("10 pushes took %v", took)
	}
	if k, err := try[api.KickReply](s, subject.Kick, api.KickRequest{UID: other}); err == nil {
		t.Fatalf("nobody knows whether there is a session to kick: %+v", k)
	}
	if k, err := try[api.KickReply](s, subject.Kick, api.KickRequest{UID: one}); err == nil {
		t.Fatalf("nobody knows whether there is another session to kick: %+v", k)
	}
	if r := ask[api.PushReply](s, subject.Push, push(one)); r.Delivered != 0 {
		t.Fatalf("not kicked: %+v", r)
	}
	g2.setMute(false)
	natstest.Eventually(t, patience, "the other is online again", func() bool {
		return ask[api.UserPresence](s, s.userSubject(other, subject.UserPresence), "").Status == api.Online
	})
}

// TestI7_Drain: a node that gives its slots away calls nobody offline, and takes them back.
func TestI7_Drain(t *testing.T) {
	s, a1, _, _ := pair(t)
	g := s.owner("g1")
	users := crowd(20, g)
	end := s.watch(users)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := a1.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	if a1.Check() == nil {
		t.Error("a drained node is ready")
	}
	natstest.Eventually(t, patience, "all are online", func() bool { return s.allOnline(users) })
	if err := a1.Undrain(ctx); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, patience, "it leads again", func() bool {
		return slices.ContainsFunc(ask[api.SlotsReply](s, subject.Slots, "").Slots, func(e api.Slot) bool { return e.LeaderNode == "a1" && e.State == api.SlotActive })
	})
	natstest.Eventually(t, patience, "all are online", func() bool { return s.allOnline(users) })
	end()
}

// TestNoLeader: users of a slot without leader are unknown, and never offline.
func TestNoLeader(t *testing.T) {
	s, a1, a2, _ := pair(t)
	g := s.owner("g1")
	g.login(alice, "phone")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, a := range []*authority.Authority{a1, a2} {
		if err := a.Drain(ctx); err != nil {
			t.Fatal(err)
		}
	}
	r := ask[api.PushReply](s, subject.Push, push(alice, bob))
	if !slices.Equal(r.Unknown, []identity.UID{alice, bob}) || len(r.Offline)+r.Delivered != 0 {
		t.Fatalf("%+v", r)
	}
	p := ask[api.PresenceReply](s, subject.Presence, api.PresenceRequest{Users: []identity.UID{alice}})
	if p.Users[0].Status != api.Unknown {
		t.Fatalf("%+v", p)
	}
	for _, e := range ask[api.SlotsReply](s, subject.Slots, "").Slots {
		if e.State != api.SlotNone || e.LeaderNode != "" {
			t.Fatalf("%+v", e)
		}
	}
	if _, err := try[api.KickReply](s, subject.Kick, api.KickRequest{UID: alice}); err == nil {
		t.Fatal("a kick without leader succeeded")
	}
}

// TestEvents: each change of a user between no session and some is in the stream, once.
func TestEvents(t *testing.T) {
	s := ready(t)
	g := s.owner("g1")
	g.login(alice, "phone")
	tablet := g.login(alice, "tablet")
	if k := ask[api.KickReply](s, subject.Kick, api.KickRequest{UID: alice, ExceptSession: tablet.id}); k.Kicked != 1 {
		t.Fatal(k)
	}
	g.drop(tablet)
	ask[api.PushReply](s, subject.Push, push(alice)) // finds both stale
	js, err := jetstream.New(s.nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cons, err := js.OrderedConsumer(ctx, subject.StreamEvents, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var last api.UserEvent
	for _, what := range []string{api.WhatOnline, api.WhatOffline} {
		m, err := cons.Next(jetstream.FetchMaxWait(patience))
		if err != nil {
			t.Fatal(err)
		}
		var e api.UserEvent
		if err := json.Unmarshal(m.Data(), &e); err != nil {
			t.Fatal(err)
		}
		if m.Subject() != subject.Event(api.KindUser, what, "eu", "main") || e.Type != "user."+what || e.UID != alice ||
			e.Slot != slot.OfUID(alice) || e.N <= last.N || e.Term == 0 || time.Since(e.At.Time) > patience {
			t.Fatalf("%s: %+v", m.Subject(), e)
		}
		if id := m.Headers().Get(subject.HeaderMsgID); !strings.HasPrefix(id, "u.") {
			t.Fatalf("id %q", id)
		}
		last = e
	}
}
