package leader_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/authority/internal/leader"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// neighbour is a user of alice's hash slot without a session.
func neighbour() identity.UID {
	for i := 0; ; i++ {
		if u := identity.UID(fmt.Sprintf("eu/main/n%d", i)); slot.OfUID(u) == slot.OfUID(alice) {
			return u
		}
	}
}

func (r *rig) presence(t *testing.T, u identity.UID) directory.Presence {
	t.Helper()
	var f directory.Found
	if err := r.leader.Lookup(r.target(), []identity.UID{u}, nil, &f); err != nil {
		t.Fatal(err)
	}
	return f.Entries[0].Presence
}

// TestI7_NobodyHearsIsNotGone: that a gateway's subject is not heard for a moment costs a live user
// nothing but an error; only the gateway's word, or its end, removes the route.
func TestI7_NobodyHearsIsNotGone(t *testing.T) {
	r := newRig(t, leader.Config{})
	r.open()
	r.login(route(owner, "phone", 1))
	r.mu.Lock()
	r.gone = true
	r.mu.Unlock()
	if o := wait(t, r.push(1, 0)); len(o.Sessions) != 1 || o.Sessions[0].Delivery != wirepb.Delivery_DELIVERY_NO_ANSWER {
		t.Fatalf("%+v", o)
	}
	if n, u, err := r.act(leader.Action{Users: []identity.UID{alice}}); n != 0 || !slices.Equal(u, []identity.UID{alice}) || err != nil {
		t.Fatal(n, u, err)
	}
	if p := r.presence(t, alice); p != directory.PresenceOnline || len(r.events) != 1 {
		t.Fatalf("%v, %+v", p, r.events)
	}
	r.leader.OwnerGone(owner, time.Now())
	if n, u, err := r.act(leader.Action{Users: []identity.UID{alice}}); n != 0 || u != nil || err != nil {
		t.Fatal(n, u, err)
	}
	if p := r.presence(t, alice); p != directory.PresenceOffline {
		t.Fatal(p)
	}
}

// TestI7_SilentGatewayHoldsUpNobodyForLong: one gateway that lives and does not report costs pushes
// and actions a bounded wait after the slot's opening, and none later: what is known is done, and
// no action claims to be complete.
func TestI7_SilentGatewayHoldsUpNobodyForLong(t *testing.T) {
	r := newRig(t, leader.Config{RebuildHold: time.Minute})
	r.open(owner, other)
	phone := route(owner, "phone", 1)
	if _, err := r.leader.Restore(r.target(), owner, []directory.Route{phone}, true, time.Now()); err != nil {
		t.Fatal(err)
	}
	held := r.push(1, time.Hour)
	if n, u, err := r.act(leader.Action{Users: []identity.UID{alice}}); n != 0 || u != nil || !errors.Is(err, directory.ErrUnavailable) {
		t.Fatal(n, u, err)
	}
	r.leader.Tick(time.Now())
	if r.leader.Held() != 1 {
		t.Fatal("not held")
	}
	r.leader.Tick(time.Now().Add(2 * time.Minute))
	if o := wait(t, held); o.Err != nil || len(o.Sessions) != 1 || o.Sessions[0].Delivery != wirepb.Delivery_DELIVERY_QUEUED {
		t.Fatalf("%+v", o)
	}

	r = newRig(t, leader.Config{RebuildHold: time.Nanosecond})
	r.open(owner, other)
	if _, err := r.leader.Restore(r.target(), owner, []directory.Route{phone}, true, time.Now()); err != nil {
		t.Fatal(err)
	}
	nobody, stranger := neighbour(), identity.NewSessionID(uint8(slot.OfUID(alice)))
	if o := wait(t, r.push(2, time.Hour)); len(o.Sessions) != 1 || o.Sessions[0].Delivery != wirepb.Delivery_DELIVERY_QUEUED {
		t.Fatalf("%+v", o)
	}
	out := make(chan leader.Outcome, 1)
	r.leader.Push(leader.Order{Target: r.target(), Users: []identity.UID{nobody}, Push: &wirepb.Push{}, HoldUntil: time.Now().Add(time.Hour),
		Done: func(o leader.Outcome) { out <- o }})
	if o := wait(t, out); !slices.Equal(o.Unknown, []identity.UID{nobody}) || len(o.Offline) > 0 {
		t.Fatalf("%+v", o)
	}
	n, u, err := r.act(leader.Action{Users: []identity.UID{alice, nobody}, Sessions: []identity.SessionID{stranger}})
	if n != 1 || !slices.Equal(u, []identity.UID{alice, nobody, ""}) || err != nil { // the silent one may hold more of alice
		t.Fatal(n, u, err)
	}
	if n, u, err = r.act(leader.Action{Users: []identity.UID{nobody}}); n != 0 || !slices.Equal(u, []identity.UID{nobody}) || err != nil {
		t.Fatal(n, u, err)
	}
	if _, err := r.leader.Restore(r.target(), other, nil, true, time.Now()); err != nil {
		t.Fatal(err)
	}
	if n, u, err = r.act(leader.Action{Users: []identity.UID{alice, nobody}}); n != 1 || u != nil || err != nil {
		t.Fatal(n, u, err)
	}
}

// TestI7_NothingExpiresForTheLeadersDeafness: not while the fence does not hold, the calls of gateways
// cannot arrive, or the process is paused; and after it every route has a whole TTL.
func TestI7_NothingExpiresForTheLeadersDeafness(t *testing.T) {
	for _, how := range []string{"fence", "connection", "pause"} {
		deaf := false
		r := newRig(t, leader.Config{Hearing: func() bool { return !deaf || how != "connection" }})
		setDeaf := func(v bool) {
			deaf = v
			r.mu.Lock()
			r.serving = !v || how != "fence"
			r.mu.Unlock()
		}
		r.open()
		r.login(route(owner, "phone", 1))
		now := time.Now()
		r.leader.Tick(now)
		tick := func(d time.Duration) {
			for end := now.Add(d); now.Before(end); {
				now = now.Add(500 * time.Millisecond)
				r.leader.Tick(now)
			}
		}
		if setDeaf(true); how == "pause" {
			now = now.Add(time.Hour)
		} else {
			tick(200 * time.Second)
		}
		setDeaf(false)
		if tick(170 * time.Second); r.presence(t, alice) != directory.PresenceOnline || len(r.events) != 1 {
			t.Fatalf("%s: expired, %+v", how, r.events)
		}
		if tick(20 * time.Second); r.presence(t, alice) != directory.PresenceOffline || len(r.events) != 2 {
			t.Fatalf("%s: not expired, %+v", how, r.events)
		}
	}
}
