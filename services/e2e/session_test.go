package e2e

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/services/e2e/lab"
)

type control struct {
	Action    string `json:"action"`
	Reason    string `json:"reason"`
	Reconnect bool   `json:"reconnect"`
}

// waitControl waits for a session control push of a JSON session.
func waitControl(t *testing.T, c *lab.Client) control {
	t.Helper()
	m := c.Wait("session control", func(m lab.Message) bool { return m.Kind == "push" && m.Route == 4 })
	var out control
	if err := json.Unmarshal(m.Payload, &out); err != nil || m.Seq != 0 {
		t.Errorf("session control %+v: %v", m, err)
	}
	return out
}

func wantClosed(t *testing.T, c *lab.Client, code int) {
	t.Helper()
	if how := c.WaitClosed(); how.Code != code {
		t.Errorf("closed with %+v, want %d", how, code)
	}
}

func testGroups(t *testing.T, d *deployment) {
	b, id, other := d.backend(t), newUser(), newUser()
	one := login(t, b, d.gateways[0], lab.JSON, id, dev("one"), "room-*")
	two := login(t, b, d.gateways[1], lab.JSON, other, dev("two"))
	group := "room-" + id.UserID

	if m := one.Request(6, map[string]string{"group": group}); m.Kind != "response" {
		t.Fatalf("join: %s %s", m.Kind, m.Payload)
	}
	if m := one.Request(6, map[string]string{"group": "hall"}); m.Code() != "FORBIDDEN" {
		t.Errorf("join without the grant: %s %s", m.Kind, m.Payload)
	}
	if m := two.Request(6, map[string]string{"group": group}); m.Code() != "FORBIDDEN" {
		t.Errorf("join without any grant: %s %s", m.Kind, m.Payload)
	}
	var changed struct {
		Changed int `json:"changed"`
	}
	join := map[string]any{"group": group, "users": []string{id.UID(), other.UID()}}
	if code := b.Call("sy.v1.group.join", join, &changed); code != "" || changed.Changed != 1 {
		t.Fatalf("backend join: %s %+v, want 1 changed (one is a member already)", code, changed)
	}
	r := push(t, b, map[string]any{"groups": []string{group}, "route": 310, "payload": "all"})
	if r.Delivered != 2 || r.statuses()[one.Session] != "queued" || r.statuses()[two.Session] != "queued" {
		t.Fatalf("group push: %+v", r)
	}
	one.Push()
	two.Push()
	if code := b.Call("sy.v1.group.leave", map[string]any{"group": group, "sessions": []string{two.Session}}, &changed); code != "" || changed.Changed != 1 {
		t.Fatalf("leave: %s %+v", code, changed)
	}
	if m := one.Request(7, map[string]string{"group": group}); m.Kind != "response" {
		t.Fatalf("leave: %s %s", m.Kind, m.Payload)
	}
	if r := push(t, b, map[string]any{"groups": []string{group}, "route": 310, "payload": "nobody"}); r.Delivered != 0 || len(r.Sessions) != 0 {
		t.Errorf("push to an empty group: %+v", r)
	}
}

func testKick(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	one := login(t, b, d.gateways[0], lab.JSON, id, dev("one"))
	two := login(t, b, d.gateways[1], lab.JSON, id, dev("two"))
	three := login(t, b, d.gateways[1], lab.JSON, id, dev("three"))
	var out struct {
		Kicked int `json:"kicked"`
	}
	if code := b.Call("sy.v1.kick", map[string]any{"session_id": two.Session, "reason": "test"}, &out); code != "" || out.Kicked != 1 {
		t.Fatalf("kick by session: %s %+v", code, out)
	}
	if c := waitControl(t, two); c.Action != "kick" || c.Reason != "test" || c.Reconnect {
		t.Errorf("control %+v", c)
	}
	wantClosed(t, two, 4505)
	one.Alive()
	if code := b.Call("sy.v1.kick", map[string]any{"uid": id.UID(), "reason": "all", "except_session": three.Session}, &out); code != "" || out.Kicked != 1 {
		t.Fatalf("kick by user: %s %+v", code, out)
	}
	wantClosed(t, one, 4505)
	three.Alive()
	if code := b.Call("sy.v1.kick", map[string]any{"session_id": one.Session, "reason": "again"}, &out); code != "" || out.Kicked != 0 {
		t.Errorf("kick of a session that is gone: %s %+v", code, out)
	}
	if u := presence(t, b, id.UID())[0]; len(u.Sessions) != 1 || u.Sessions[0].SessionID != three.Session {
		t.Errorf("presence after the kicks: %+v", u)
	}
}

func testSlaveConflict(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	first := login(t, b, d.gateways[0], lab.JSON, id, dev("phone"))
	otherDevice := login(t, b, d.gateways[0], lab.JSON, id, dev("pad"))
	unnamed := login(t, b, d.gateways[1], lab.JSON, id, nil)
	second := login(t, b, d.gateways[1], lab.JSON, id, dev("phone"))
	if c := waitControl(t, first); c.Action != "duplicate_login" {
		t.Errorf("control %+v", c)
	}
	wantClosed(t, first, 4502)
	for _, c := range []*lab.Client{otherDevice, unnamed, second} {
		c.Alive()
	}
	if u := presence(t, b, id.UID())[0]; len(u.Sessions) != 3 {
		t.Errorf("sessions: %+v", u.Sessions)
	}
}

func testMasterConflict(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	one := login(t, b, d.gateways[0], lab.JSON, id, dev("one"))
	two := login(t, b, d.gateways[1], lab.ELR2, id, dev("two"))
	web := login(t, b, d.gateways[1], lab.JSON, id, &lab.TicketDevice{ID: "one", Flag: "web"})
	master := login(t, b, d.gateways[1], lab.JSON, id, &lab.TicketDevice{ID: "three", Flag: "app", Level: "master"})
	if c := waitControl(t, one); c.Action != "duplicate_login" || c.Reconnect {
		t.Errorf("JSON control %+v", c)
	}
	wantClosed(t, one, 4502)
	// Over ELR2 the same is the protobuf message {1: enum action, 2: string reason}; 3 is duplicate_login.
	m := two.Wait("session control", func(m lab.Message) bool { return m.Kind == "push" && m.Route == 4 })
	if len(m.Payload) < 2 || m.Payload[0] != 0x08 || m.Payload[1] != 3 || m.Seq != 0 {
		t.Errorf("ELR2 control % x with seq %d", m.Payload, m.Seq)
	}
	wantClosed(t, two, 4502)
	web.Alive()
	slave := login(t, b, d.gateways[0], lab.JSON, id, dev("four"))
	master.Alive()
	slave.Alive()
	next := login(t, b, d.gateways[0], lab.JSON, id, &lab.TicketDevice{ID: "five", Flag: "app", Level: "master"})
	wantClosed(t, master, 4502)
	wantClosed(t, slave, 4502)
	next.Alive()
	if u := presence(t, b, id.UID())[0]; len(u.Sessions) != 2 {
		t.Errorf("sessions: %+v", u.Sessions)
	}
}

func testFlagsCoexist(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	var all []*lab.Client
	for i, flag := range []string{"app", "web", "tv"} {
		all = append(all, login(t, b, d.gateways[i%2], lab.JSON, id, &lab.TicketDevice{ID: "same", Flag: flag, Level: "master"}))
	}
	for _, c := range all {
		c.Alive()
	}
}

// testHundredLogins: one device logs in a hundred times at once; whatever happened on the way, one
// session is left, and it is the one that presence names.
func testHundredLogins(t *testing.T, d *deployment) {
	const n = 100
	b, id := d.backend(t), newUser()
	tickets := make([]string, n)
	for i := range tickets {
		tickets[i] = b.Ticket(id, dev("one"))
	}
	clients := make([]*lab.Client, n)
	ok := make([]bool, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c, err := lab.TryDial(t, d.gateways[i%2], lab.DialOptions{Subprotocol: lab.JSON})
			if err != nil {
				t.Errorf("dial: %v", err)
				return
			}
			clients[i] = c
			c.Send(1, 0, map[string]any{"ticket": tickets[i]})
			m, closed, got := c.TryWait(30*time.Second, func(m lab.Message) bool { return m.ID == 1 })
			switch {
			case got && m.Kind == "response":
				var a lab.Authenticated
				if err := json.Unmarshal(m.Payload, &a); err != nil {
					t.Error(err)
				}
				c.Session, ok[i] = a.SessionID, true
			case got:
				// DUPLICATE_SESSION: a later login took over before this one's answer was written.
				if code := m.Code(); code != "DUPLICATE_SESSION" && code != "UNAVAILABLE" && code != "TIMEOUT" {
					t.Errorf("login %d: %s", i, m.Payload)
				}
			case closed == nil || closed.Code != 4502: // replaced even before its answer was written
				t.Errorf("login %d: no answer (%+v)", i, closed)
			}
		})
	}
	wg.Wait()
	lab.Eventually(t, 10*time.Second, func() error {
		sessions := presence(t, b, id.UID())[0].Sessions
		if len(sessions) != 1 {
			return fmt.Errorf("%d sessions", len(sessions))
		}
		alive := 0
		for i, c := range clients {
			if c == nil || !ok[i] {
				continue
			}
			if _, closed, _ := c.TryWait(0, func(lab.Message) bool { return false }); closed == nil {
				alive++
				if c.Session != sessions[0].SessionID {
					return fmt.Errorf("session %s is open, but presence names %s", c.Session, sessions[0].SessionID)
				}
			} else if closed.Code != 4502 {
				t.Errorf("session %s closed with %+v", c.Session, closed)
			}
		}
		if alive != 1 {
			return fmt.Errorf("%d sessions are open", alive)
		}
		return nil
	})
}

func testTicketOnce(t *testing.T, d *deployment) {
	const n = 50
	b, id := d.backend(t), newUser()
	ticket := b.Ticket(id, dev("phone"))
	results := make(chan lab.Message, n)
	winners := make(chan *lab.Client, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c, err := lab.TryDial(t, d.gateways[i%2], lab.DialOptions{Subprotocol: lab.JSON})
			if err != nil {
				t.Error(err)
				return
			}
			c.Send(1, 0, map[string]any{"ticket": ticket})
			m, closed, got := c.TryWait(30*time.Second, func(m lab.Message) bool { return m.ID == 1 })
			if !got {
				t.Errorf("no answer: %+v", closed)
				return
			}
			results <- m
			if m.Kind == "response" {
				winners <- c
			}
		})
	}
	wg.Wait()
	close(results)
	close(winners)
	won := 0
	for m := range results {
		switch {
		case m.Kind == "response":
			won++
		case m.Code() != "UNAUTHENTICATED" && m.Code() != "UNAVAILABLE":
			t.Errorf("refused with %s", m.Payload)
		}
	}
	if won != 1 {
		t.Fatalf("%d of %d uses of one ticket succeeded", won, n)
	}
	winner := <-winners
	// A replay refuses the newcomer and leaves the live session alone.
	late := lab.Dial(t, d.gateways[1], lab.JSON)
	if _, m := late.TryLogin(ticket, nil); m.Code() != "UNAUTHENTICATED" {
		t.Errorf("replay: %s %s", m.Kind, m.Payload)
	}
	winner.Alive()
}

// testLateClose: the old session's socket closes long after the new one logged in elsewhere; the
// new route stays.
func testLateClose(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	old := login(t, b, d.gateways[0], lab.JSON, id, dev("phone"))
	now := login(t, b, d.gateways[1], lab.JSON, id, dev("phone"))
	wantClosed(t, old, 4502)
	old.Drop()
	for range 50 { // each round trip gives a late unregister another chance to arrive
		if u := presence(t, b, id.UID())[0]; u.Status != "online" || len(u.Sessions) != 1 || u.Sessions[0].SessionID != now.Session {
			t.Fatalf("presence: %+v", u)
		}
	}
	push(t, b, map[string]any{"users": []string{id.UID()}, "route": 311, "payload": 1})
	now.Push()
}
