package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/services/e2e/lab"
)

func testTwoDevices(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	one := login(t, b, d.gateways[0], lab.JSON, id, dev("phone"))
	two := login(t, b, d.gateways[1], lab.ELR2, id, dev("pad"))

	r := push(t, b, map[string]any{"users": []string{id.UID()}, "route": 300, "payload": map[string]int{"n": 1}})
	if r.Delivered != 2 || r.statuses()[one.Session] != "queued" || r.statuses()[two.Session] != "queued" {
		t.Fatalf("reply %+v, want both sessions queued", r)
	}
	if r.Sessions[0].GatewayID == r.Sessions[1].GatewayID {
		t.Errorf("both sessions are reported on gateway %s", r.Sessions[0].GatewayID)
	}
	if m := one.Push(); m.Route != 300 || string(m.Payload) != `{"n":1}` || m.Seq != 1 || m.Ack {
		t.Errorf("JSON client got %+v", m)
	}
	if m := two.Push(); m.Route != 300 || string(m.Payload) != `{"n":1}` || m.Seq != 1 || m.ID != 0 {
		t.Errorf("ELR2 client got %+v", m)
	}
}

func testPerUserSubject(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	c := login(t, b, d.gateways[0], lab.JSON, id, dev("phone"))
	var r pushReply
	if code := b.Call(userSubject(id, "push"), map[string]any{"route": 301, "payload": "hi"}, &r); code != "" || r.Delivered != 1 {
		t.Fatalf("reply %s %+v", code, r)
	}
	if m := c.Push(); m.Route != 301 || string(m.Payload) != `"hi"` {
		t.Errorf("got %+v", m)
	}
	for _, body := range []string{"", "{}"} {
		var p presenceUser
		if code := b.CallRaw(userSubject(id, "presence"), []byte(body), &p); code != "" || p.Status != "online" || len(p.Sessions) != 1 {
			t.Errorf("presence with body %q: %s %+v", body, code, p)
		}
	}
	nobody := newUser()
	if code := b.Call(userSubject(nobody, "push"), map[string]any{"route": 301, "payload": "hi"}, &r); code != "" || len(r.Offline) != 1 || r.Delivered != 0 {
		t.Errorf("push to nobody: %s %+v", code, r)
	}
}

func testOrder(t *testing.T, d *deployment) {
	const n = 500
	b, id := d.backend(t), newUser()
	one := login(t, b, d.gateways[0], lab.JSON, id, dev("phone"))
	two := login(t, b, d.gateways[1], lab.ELR2, id, dev("pad"))
	for i := range n {
		if err := b.Publish(userSubject(id, "push"), fmt.Appendf(nil, `{"route":302,"payload":%d}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []*lab.Client{one, two} {
		for i := range n {
			if m := c.Push(); string(m.Payload) != strconv.Itoa(i) || m.Seq != uint64(i+1) {
				t.Fatalf("push %d: got %s with seq %d", i, m.Payload, m.Seq)
			}
		}
	}
}

func testAcks(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	willing := login(t, b, d.gateways[0], lab.JSON, id, dev("willing"))
	mute := login(t, b, d.gateways[1], lab.JSON, id, dev("mute"))
	old := login(t, b, d.gateways[1], lab.ELR2, id, dev("old"))

	done := make(chan pushReply, 1)
	go func() {
		var out pushReply
		_ = b.Call("sy.v1.push", map[string]any{"users": []string{id.UID()}, "route": 303, "payload": 1, "ack": true, "ack_timeout_ms": 1500}, &out)
		done <- out
	}()
	m := willing.Push()
	if !m.Ack {
		t.Errorf("the push does not ask for an acknowledgement: %+v", m)
	}
	if a := willing.Request(5, map[string]any{"seqs": []uint64{m.Seq}}); a.Kind != "response" {
		t.Errorf("acknowledge: %s %s", a.Kind, a.Payload)
	}
	r := <-done
	want := map[string]string{willing.Session: "acked", mute.Session: "ack_timeout", old.Session: "queued"}
	for session, status := range want {
		if r.statuses()[session] != status {
			t.Errorf("session %s: %q, want %q", session, r.statuses()[session], status)
		}
	}
	if r.Acked == nil || *r.Acked != 1 || r.Delivered != 2 {
		t.Errorf("reply %+v, want 1 acked and 2 delivered", r)
	}
}

// testAckOfClosing: a session that ends while its acknowledgement is awaited is not waited for.
func testAckOfClosing(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	c := login(t, b, d.gateways[0], lab.JSON, id, dev("leaving"))
	done := make(chan pushReply, 1)
	start := time.Now()
	go func() {
		var out pushReply
		_ = b.Call("sy.v1.push", map[string]any{"users": []string{id.UID()}, "route": 303, "payload": 1, "ack": true, "ack_timeout_ms": 9000}, &out)
		done <- out
	}()
	c.Push()
	c.Drop()
	r := <-done
	if r.statuses()[c.Session] != "ack_timeout" || time.Since(start) > 5*time.Second {
		t.Errorf("after %s: %+v", time.Since(start), r)
	}
}

func testMessageID(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	c := login(t, b, d.gateways[0], lab.JSON, id, dev("phone"))
	for range 3 {
		r := push(t, b, map[string]any{"users": []string{id.UID()}, "route": 304, "payload": "once", "message_id": "m-1"})
		if r.Delivered != 1 || r.statuses()[c.Session] != "queued" {
			t.Fatalf("reply %+v", r)
		}
	}
	push(t, b, map[string]any{"users": []string{id.UID()}, "route": 304, "payload": "next", "message_id": "m-2"})
	if m := c.Push(); string(m.Payload) != `"once"` || m.Seq != 1 {
		t.Fatalf("got %+v", m)
	}
	if m := c.Push(); string(m.Payload) != `"next"` || m.Seq != 2 {
		t.Fatalf("got %+v after the repeats, want the next message with seq 2", m)
	}
}

func testExclude(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	in := login(t, b, d.gateways[0], lab.JSON, id, dev("in"))
	out := login(t, b, d.gateways[1], lab.JSON, id, dev("out"))
	r := push(t, b, map[string]any{"users": []string{id.UID()}, "route": 305, "payload": 1, "exclude_sessions": []string{out.Session}})
	if r.Delivered != 1 || len(r.Sessions) != 1 || r.Sessions[0].SessionID != in.Session || len(r.Offline) != 0 {
		t.Fatalf("reply %+v", r)
	}
	in.Push()
	push(t, b, map[string]any{"sessions": []string{out.Session}, "route": 305, "payload": 2})
	if m := out.Push(); string(m.Payload) != "2" {
		t.Errorf("the excluded session got %s", m.Payload)
	}
}

func testManyUsers(t *testing.T, d *deployment) {
	const n = 60
	b := d.backend(t)
	var uids, offline []string
	clients := map[string]*lab.Client{}
	for i := range n {
		id := newUser()
		uids = append(uids, id.UID())
		if i%3 == 0 {
			offline = append(offline, id.UID())
			continue
		}
		clients[id.UID()] = login(t, b, d.gateways[i%2], []string{lab.JSON, lab.ELR2}[i%2], id, dev("x"))
	}
	r := push(t, b, map[string]any{"users": uids, "route": 306, "payload": "all"})
	if r.Delivered != len(clients) || fmt.Sprint(r.Offline) != fmt.Sprint(offline) || len(r.Unknown)+len(r.Errors) != 0 {
		t.Fatalf("delivered %d, offline %v, unknown %v, errors %v; want %d and %v", r.Delivered, r.Offline, r.Unknown, r.Errors, len(clients), offline)
	}
	for _, c := range clients {
		c.Push()
	}
}

func testPushBySession(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	one := login(t, b, d.gateways[0], lab.JSON, id, dev("one"))
	two := login(t, b, d.gateways[1], lab.JSON, id, dev("two"))
	r := push(t, b, map[string]any{"sessions": []string{two.Session}, "route": 307, "payload": 1})
	if r.Delivered != 1 || r.statuses()[two.Session] != "queued" || r.Sessions[0].UID != id.UID() {
		t.Fatalf("reply %+v", r)
	}
	two.Push()
	one.Alive()
	if got := one.Pushes(); len(got) != 0 {
		t.Errorf("the other session got %+v", got)
	}
}

func testPayloads(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	j := login(t, b, d.gateways[0], lab.JSON, id, dev("json"))
	e := login(t, b, d.gateways[1], lab.ELR2, id, dev("elr2"))
	raw := []byte{0, 1, 2, 0xff, 'x'}
	for _, value := range []string{`null`, `"é \u0000 text"`, `[1,2.5,{"a":[]}]`, `12345678901234567890`} {
		push(t, b, map[string]any{"users": []string{id.UID()}, "route": 308, "payload": json.RawMessage(value)})
		if m := j.Push(); !sameJSON(m.Payload, []byte(value)) || m.PayloadB64 != nil {
			t.Errorf("JSON client got %s for %s", m.Payload, value)
		}
		if m := e.Push(); !sameJSON(m.Payload, []byte(value)) {
			t.Errorf("ELR2 client got %s for %s", m.Payload, value)
		}
	}
	push(t, b, map[string]any{"users": []string{id.UID()}, "route": 308, "payload_b64": base64.StdEncoding.EncodeToString(raw)})
	m := j.Push()
	if got, err := m.Bytes(); err != nil || !bytes.Equal(got, raw) || m.Payload != nil {
		t.Errorf("JSON client got %+v: %v", m, err)
	}
	if m := e.Push(); !bytes.Equal(m.Payload, raw) {
		t.Errorf("ELR2 client got % x", m.Payload)
	}
}

func sameJSON(a, b []byte) bool {
	var ca, cb bytes.Buffer
	return json.Compact(&ca, a) == nil && json.Compact(&cb, b) == nil && ca.String() == cb.String()
}

func testPresence(t *testing.T, d *deployment) {
	b, id, nobody := d.backend(t), newUser(), newUser()
	before := time.Now().Add(-time.Minute)
	c := login(t, b, d.gateways[0], lab.JSON, id, &lab.TicketDevice{ID: "phone", Flag: "app", Level: "master"})
	users := presence(t, b, nobody.UID(), id.UID())
	if users[0].UID != nobody.UID() || users[0].Status != "offline" || len(users[0].Sessions) != 0 {
		t.Errorf("nobody: %+v", users[0])
	}
	if users[1].UID != id.UID() || users[1].Status != "online" || len(users[1].Sessions) != 1 {
		t.Fatalf("user: %+v", users[1])
	}
	s := users[1].Sessions[0]
	if s.SessionID != c.Session || s.GatewayID == "" || s.BootID == "" || s.OwnerSeq == 0 || s.Listener == "" ||
		s.Device.ID != "phone" || s.Device.Flag != "app" || s.Device.Level != "master" {
		t.Errorf("session: %+v", s)
	}
	for _, at := range []string{s.ConnectedAt, s.LastActiveAt} {
		v, err := time.Parse("2006-01-02T15:04:05.000Z", at)
		if err != nil || v.Before(before) || v.After(time.Now().Add(time.Minute)) {
			t.Errorf("instant %q: %v", at, err)
		}
	}
	c.Close()
	lab.Eventually(t, 5*time.Second, func() error {
		if u := presence(t, b, id.UID())[0]; u.Status != "offline" {
			return fmt.Errorf("closed, but %+v", u)
		}
		return nil
	})
}

func testFireAndForget(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	c := login(t, b, d.gateways[0], lab.JSON, id, dev("x"))
	for _, subject := range []string{"sy.v1.push", userSubject(id, "push")} {
		if err := b.PublishMsg(&nats.Msg{Subject: subject, Data: fmt.Appendf(nil, `{%s"route":309,"payload":"quiet"}`, usersField(subject, id))}); err != nil {
			t.Fatal(err)
		}
		if m := c.Push(); string(m.Payload) != `"quiet"` {
			t.Errorf("got %+v", m)
		}
	}
}

func usersField(subject string, id lab.Identity) string {
	if subject == "sy.v1.push" {
		return `"users":["` + id.UID() + `"],`
	}
	return ""
}
