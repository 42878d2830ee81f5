package e2e

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/gobwas/ws"

	"github.com/switchyard-io/switchyard/services/e2e/lab"
)

// testClosedEvents: however a session ends, its event has a code and a reason.
func testClosedEvents(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	sub, err := b.SubscribeSync("sy.v1.event.session.closed." + id.RegionID + "." + id.RealmID)
	if err == nil {
		err = b.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		end    func(*lab.Client)
		code   int
		reason string
	}{
		"own code": {func(c *lab.Client) {
			c.WriteFrame(ws.NewCloseFrame(ws.NewCloseFrameBody(3001, "bye")))
		}, 3001, "client closed"},
		"no code": {func(c *lab.Client) { c.WriteFrame(ws.NewCloseFrame(nil)) }, 1005, "client closed"},
		"broken":  {func(c *lab.Client) { c.Drop() }, 1006, "transport broken"},
		"rubbish": {func(c *lab.Client) { c.WriteFrame(ws.NewTextFrame([]byte("x"))) }, 4500, "protocol violation"},
		"kicked": {func(c *lab.Client) {
			b.Call("sy.v1.kick", map[string]any{"session_id": c.Session, "reason": "enough"}, nil)
		}, 4505, "enough"},
	} {
		client := login(t, b, d.gateways[0], lab.JSON, id, dev(name))
		c.end(client)
		for deadline := time.Now().Add(10 * time.Second); ; {
			m, err := sub.NextMsg(time.Until(deadline))
			if err != nil {
				t.Fatalf("%s: no event: %v", name, err)
			}
			var e struct {
				SessionID string `json:"session_id"`
				Code      int    `json:"code"`
				Reason    string `json:"reason"`
			}
			if err := json.Unmarshal(m.Data, &e); err != nil {
				t.Fatal(err)
			}
			if e.SessionID != client.Session { // another test's
				continue
			}
			if e.Code != c.code || e.Reason != c.reason {
				t.Errorf("%s: %s, want %d %q", name, m.Data, c.code, c.reason)
			}
			break
		}
	}
}
