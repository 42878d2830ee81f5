package e2e

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/switchyard-io/switchyard/services/e2e/lab"
)

var b64 = base64.RawURLEncoding

// testForgedTickets: each refusal looks the same to the client, and leaves two more tries.
func testForgedTickets(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	good := b.Ticket(id, dev("phone"))
	parts := strings.Split(good, ".")
	if len(parts) != 3 {
		t.Fatalf("a ticket has %d parts", len(parts))
	}
	claims := func(change func(map[string]any)) string {
		raw, err := b64.DecodeString(parts[1])
		if err != nil {
			t.Fatal(err)
		}
		var c map[string]any
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatal(err)
		}
		change(c)
		out, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return b64.EncodeToString(out)
	}
	header := func(alg string) string {
		raw, err := b64.DecodeString(parts[0])
		if err != nil {
			t.Fatal(err)
		}
		var h map[string]any
		if err := json.Unmarshal(raw, &h); err != nil {
			t.Fatal(err)
		}
		h["alg"] = alg
		out, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		return b64.EncodeToString(out)
	}
	hmacSigned := func() string {
		input := header("HS256") + "." + parts[1]
		mac := hmac.New(sha256.New, []byte("secret"))
		mac.Write([]byte(input))
		return input + "." + b64.EncodeToString(mac.Sum(nil))
	}
	otherKey := func() string {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		input := parts[0] + "." + parts[1]
		return input + "." + b64.EncodeToString(ed25519.Sign(key, []byte(input)))
	}
	forged := map[string]string{
		"rubbish":     "a.b.c",
		"other user":  parts[0] + "." + claims(func(c map[string]any) { c["usr"] = "1" }) + "." + parts[2],
		"none":        header("none") + "." + parts[1] + ".",
		"hmac":        hmacSigned(),
		"other key":   otherKey(),
		"cut":         good[:len(good)-4],
		"huge":        strings.Repeat("x", 100_000),
		"no purpose":  parts[0] + "." + claims(func(c map[string]any) { delete(c, "purpose") }) + "." + parts[2],
		"longer life": parts[0] + "." + claims(func(c map[string]any) { c["exp"] = time.Now().Add(time.Hour).Unix() }) + "." + parts[2],
	}
	var first string
	for name, ticket := range forged {
		c := lab.Dial(t, d.gateways[0], lab.JSON)
		_, m := c.TryLogin(ticket, nil)
		if m.Code() != "UNAUTHENTICATED" {
			t.Errorf("%s: %s %s", name, m.Kind, m.Payload)
		}
		if first == "" {
			first = string(m.Payload)
		}
		if string(m.Payload) != first {
			t.Errorf("%s: the refusal %s differs from %s", name, m.Payload, first)
		}
		c.Drop()
	}
	c := lab.Dial(t, d.gateways[0], lab.JSON)
	c.TryLogin("a.b.c", nil)
	c.TryLogin("a.b.c", nil)
	if _, m := c.TryLogin("a.b.c", nil); m.Code() != "UNAUTHENTICATED" {
		t.Errorf("third try: %s", m.Payload)
	}
	wantClosed(t, c, 4501)
	again := lab.Dial(t, d.gateways[0], lab.JSON)
	again.TryLogin("a.b.c", nil)
	again.Login(good, nil)
}

func testBadFrames(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	neighbour := login(t, b, d.gateways[0], lab.JSON, id, dev("neighbour"))
	unmasked := ws.NewTextFrame([]byte(`{"route":2,"id":1}`))
	reserved := ws.MaskFrame(ws.NewTextFrame([]byte(`{"route":2,"id":1}`)))
	reserved.Header.Rsv = ws.Rsv(true, false, false)
	cases := map[string]func(c *lab.Client) error{
		"no JSON":      text(`hello`),
		"an array":     text(`[1]`),
		"a string":     text(`"x"`),
		"two objects":  text(`{"route":2,"id":1}{"route":2,"id":2}`),
		"cut":          text(`{"route":2,`),
		"bad UTF-8":    text("{\"route\":2,\"id\":1,\"payload\":\"\xff\"}"),
		"binary frame": func(c *lab.Client) error { c.WriteFrame(ws.NewBinaryFrame([]byte(`{"route":2,"id":1}`))); return nil },
		"unmasked":     func(c *lab.Client) error { return ws.WriteFrame(c.Conn(), unmasked) },
		"reserved bit": func(c *lab.Client) error { return ws.WriteFrame(c.Conn(), reserved) },
		"continuation without a start": func(c *lab.Client) error {
			c.WriteFrame(ws.NewFrame(ws.OpContinuation, true, []byte("x")))
			return nil
		},
		"long control frame": func(c *lab.Client) error {
			c.WriteFrame(ws.NewFrame(ws.OpPing, true, make([]byte, 126)))
			return nil
		},
		"length in two bytes": func(c *lab.Client) error {
			_, err := c.Conn().Write([]byte{0x81, 0xfe, 0, 1, 0, 0, 0, 0, 'x'})
			return err
		},
		"unknown opcode": func(c *lab.Client) error { c.WriteFrame(ws.NewFrame(0x5, true, nil)); return nil },
	}
	for name, send := range cases {
		t.Run(name, func(t *testing.T) {
			for _, loggedIn := range []bool{false, true} {
				c := lab.Dial(t, d.gateways[0], lab.JSON)
				if loggedIn {
					c.Login(b.Ticket(id, nil), nil)
				}
				if err := send(c); err != nil {
					t.Fatal(err)
				}
				wantClosed(t, c, 4500)
			}
		})
	}
	neighbour.Alive()
}

func text(s string) func(*lab.Client) error {
	return func(c *lab.Client) error { c.WriteFrame(ws.NewTextFrame([]byte(s))); return nil }
}

func testBadELR2(t *testing.T, d *deployment) {
	good := lab.ELR2Frame(1, 2, 1, 0, nil)
	change := func(at int, v byte) []byte {
		out := append([]byte(nil), good...)
		out[at] = v
		return out
	}
	long := append([]byte(nil), good...)
	binary.BigEndian.PutUint32(long[24:], 5)
	cases := map[string][]byte{
		"short":         good[:27],
		"empty":         {},
		"magic":         change(0, 0x46),
		"version":       change(5, 3),
		"kind 0":        change(6, 0),
		"kind 9":        change(6, 9),
		"flags":         change(7, 1),
		"length":        long,
		"trailing byte": append(append([]byte(nil), good...), 0),
	}
	for name, frame := range cases {
		c := lab.Dial(t, d.gateways[0], lab.ELR2)
		c.WriteFrame(ws.NewBinaryFrame(frame))
		if how := c.WaitClosed(); how.Code != 4500 {
			t.Errorf("%s: closed with %+v, want 4500", name, how)
		}
	}
	c := lab.Dial(t, d.gateways[0], lab.ELR2)
	c.WriteFrame(ws.NewTextFrame(good))
	wantClosed(t, c, 4500)

	b := d.backend(t)
	names := lab.User("not-a-number")
	refused := lab.Dial(t, d.gateways[0], lab.ELR2)
	if _, m := refused.TryLogin(b.Ticket(names, nil), nil); m.Code() != "INVALID_REQUEST" {
		t.Errorf("an identity that is not numeric: %s %s", m.Kind, m.Payload)
	}
	id := newUser()
	ok := lab.Dial(t, d.gateways[0], lab.ELR2)
	if a := ok.Login(b.Ticket(id, nil), nil); a.Identity.UserID != float64(mustInt(t, id.UserID)) || a.Identity.RegionID != float64(1) {
		t.Errorf("identity over ELR2 is %+v, want numbers", a.Identity)
	}
}

// testViolations: frames that are well formed but wrong get an error each, and the tenth in a row closes.
func testViolations(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	before := lab.Dial(t, d.gateways[0], lab.JSON)
	for _, route := range []uint32{2, 3, 5, 6, 100, 4_000_000_000} {
		if m := before.Request(route, nil); m.Code() != "UNAUTHENTICATED" {
			t.Errorf("route %d before login: %s %s", route, m.Kind, m.Payload)
		}
	}
	before.Login(b.Ticket(id, nil), nil)

	c := login(t, b, d.gateways[0], lab.JSON, id, dev("x"))
	if _, m := c.TryLogin(b.Ticket(id, nil), nil); m.Code() != "INVALID_REQUEST" {
		t.Errorf("second authenticate: %s %s", m.Kind, m.Payload)
	}
	for _, frame := range []string{
		`{"route":2,"id":901,"unknown":1}`,
		`{"route":2,"id":902,"payload":{"last_seq":0,"x":1}}`,
		`{"route":8,"id":903}`,
		`{"route":99,"id":904}`,
		`{"route":4,"id":905}`,
		`{"route":5,"id":906,"payload":{"seqs":"x"}}`,
		`{"kind":"push","route":300,"id":907}`,
	} {
		var id struct {
			ID uint64 `json:"id"`
		}
		if err := json.Unmarshal([]byte(frame), &id); err != nil {
			t.Fatal(err)
		}
		c.WriteFrame(ws.NewTextFrame([]byte(frame)))
		m := c.Wait("error", func(m lab.Message) bool { return m.ID == id.ID })
		if m.Kind != "error" || m.Code() != "INVALID_REQUEST" {
			t.Errorf("%s: %s %s", frame, m.Kind, m.Payload)
		}
	}
	c.Alive() // a good frame starts the count anew
	for range 9 {
		if m := c.Request(99, nil); m.Code() != "INVALID_REQUEST" {
			t.Errorf("reserved route: %s", m.Payload)
		}
	}
	c.Alive()
	for range 10 {
		c.Send(99, 0, nil)
	}
	wantClosed(t, c, 4500)

	fields := lab.Dial(t, d.gateways[0], lab.JSON)
	if _, m := fields.TryLogin(b.Ticket(id, nil), map[string]any{"surprise": true}); m.Code() != "INVALID_REQUEST" {
		t.Errorf("unknown field in authenticate: %s %s", m.Kind, m.Payload)
	}
	if _, m := fields.TryLogin(b.Ticket(id, nil), map[string]any{"device": map[string]any{"id": "x", "level": "master"}}); m.Code() != "INVALID_REQUEST" {
		t.Errorf("a client that grants itself a level: %s %s", m.Kind, m.Payload)
	}
}

func testOversized(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	neighbour := login(t, b, d.gateways[0], lab.JSON, id, dev("neighbour"))
	c := login(t, b, d.gateways[0], lab.JSON, id, dev("big"))
	c.WriteFrame(ws.NewTextFrame([]byte(`{"route":300,"id":7,"payload":"` + strings.Repeat("x", 1<<20) + `"}`)))
	wantClosed(t, c, 4506)

	parts := login(t, b, d.gateways[0], lab.JSON, id, dev("parts"))
	chunk := make([]byte, 300<<10)
	parts.WriteFrame(ws.NewFrame(ws.OpText, false, chunk))
	for range 5 {
		parts.WriteFrame(ws.NewFrame(ws.OpContinuation, false, chunk))
	}
	wantClosed(t, parts, 4506)
	neighbour.Alive()

	var out pushReply
	big := map[string]any{"users": []string{id.UID()}, "route": 312, "payload": strings.Repeat("y", 600<<10)}
	if code := b.Call("sy.v1.push", big, &out); code != "" || out.Delivered == 0 {
		t.Fatalf("a large push that fits: %s %+v", code, out)
	}
	if m := neighbour.Push(); len(m.Payload) != 600<<10+2 {
		t.Errorf("the large push arrived with %d bytes", len(m.Payload))
	}
}

// testStuckClient: a client that reads nothing is cut, in bounded memory; its neighbours are served.
func testStuckClient(t *testing.T, d *deployment) {
	b, id, other := d.backend(t), newUser(), newUser()
	stuck, err := lab.TryDial(t, d.gateways[0], lab.DialOptions{Subprotocol: lab.JSON, NoReader: true, ReadBuffer: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	stuck.Send(1, 0, map[string]any{"ticket": b.Ticket(id, dev("stuck"))})
	lab.Eventually(t, 10*time.Second, func() error {
		if presence(t, b, id.UID())[0].Status != "online" {
			return errors.New("not logged in")
		}
		return nil
	})
	neighbour := login(t, b, d.gateways[0], lab.JSON, other, dev("neighbour"))
	block := strings.Repeat("z", 64<<10)
	sawOverflow := false
	lab.Eventually(t, 60*time.Second, func() error {
		r := push(t, b, map[string]any{"users": []string{id.UID()}, "route": 313, "payload": block})
		for _, s := range r.Sessions {
			sawOverflow = sawOverflow || s.Status == "overflow"
		}
		push(t, b, map[string]any{"users": []string{other.UID()}, "route": 313, "payload": "n"})
		neighbour.Push()
		if presence(t, b, id.UID())[0].Status == "online" {
			return errors.New("the stuck client is still there")
		}
		return nil
	})
	if !sawOverflow {
		t.Log("the cut was seen before a push was answered with overflow")
	}
	neighbour.Alive()
}

func testHalfOpen(t *testing.T, d *deployment) {
	// A connection that never authenticates is closed after the authentication timeout (10 s).
	c := lab.Dial(t, d.gateways[0], lab.JSON)
	start := time.Now()
	wantClosed(t, c, 4003)
	if took := time.Since(start); took < 8*time.Second {
		t.Errorf("closed after %s, long before the timeout", took)
	}
}

func testOrigins(t *testing.T, d *deployment) {
	host := strings.TrimSuffix(strings.TrimPrefix(d.gateways[0], "ws://"), "/v1/connect")
	if _, err := lab.TryDial(t, d.gateways[0], lab.DialOptions{Subprotocol: lab.JSON, Header: http.Header{"Origin": {"http://" + host}}}); err != nil {
		t.Errorf("own origin: %v", err)
	}
	_, err := lab.TryDial(t, d.gateways[0], lab.DialOptions{Subprotocol: lab.JSON, Header: http.Header{"Origin": {"http://evil.example"}}})
	if status := (lab.RefusedError{}); !errors.As(err, &status) || status.Status != http.StatusForbidden {
		t.Errorf("a stranger's origin: %v, want 403", err)
	}
	if _, err := lab.TryDial(t, strings.Replace(d.gateways[0], "/v1/connect", "/elura/game", 1), lab.DialOptions{Subprotocol: lab.ELR2}); err != nil {
		t.Errorf("the path of ELR2 clients: %v", err)
	}
}

func testBadRequests(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	uid := id.UID()
	for _, c := range []struct{ subject, body string }{
		{"sy.v1.push", `{`},
		{"sy.v1.push", `[]`},
		{"sy.v1.push", `{"users":["` + uid + `"],"route":300,"payload":1,"x":1}`},
		{"sy.v1.push", `{"users":["no-slashes"],"route":300,"payload":1}`},
		{"sy.v1.push", `{"users":["` + uid + `"],"route":99,"payload":1}`},
		{"sy.v1.push", `{"users":["` + uid + `"],"route":300,"payload":1,"payload_b64":"AA=="}`},
		{"sy.v1.push", `{"users":["` + uid + `"],"route":300,"payload_b64":"***"}`},
		{"sy.v1.push", `{"sessions":["nonsense"],"route":300,"payload":1}`},
		{"sy.v1.push", `{"groups":["a b"],"route":300,"payload":1}`},
		{"sy.v1.push", `{"route":300,"payload":1}`},
		{userSubject(id, "push"), `{"users":["` + uid + `"],"route":300,"payload":1}`},
		{userSubject(id, "push"), `not json`},
		{"sy.v1.presence", `{"users":"x"}`},
		{"sy.v1.kick", `{"reason":"nobody named"}`},
		{"sy.v1.kick", `{"uid":"` + uid + `","session_id":"x"}`},
		{"sy.v1.group.join", `{"group":"g"}`},
		{"sy.v1.ticket.issue", `{"identity":{"account_id":"a"}}`},
		{"sy.v1.ticket.issue", `{"identity":{"account_id":"1","user_id":"2","region_id":"1","realm_id":"7","generation":0}}`},
		{"sy.v1.ticket.issue", `{"identity":{"account_id":"1","user_id":"2","region_id":"1","realm_id":"7"},"device":{"flag":""}}`},
		{"sy.v1.ticket.issue", `{"identity":{"account_id":"\ud800","user_id":"2","region_id":"1","realm_id":"7"}}`},
		{"sy.v1.push", `{"users":["` + uid + `"],"route":300,"payload_b64":"AB=="}`},
	} {
		if code := b.CallRaw(c.subject, []byte(c.body), nil); code != "INVALID_REQUEST" {
			t.Errorf("%s %s: %q", c.subject, c.body, code)
		}
	}
}
