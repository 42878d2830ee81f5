package e2e

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard-io/switchyard/services/e2e/lab"
)

// testClosedEvents: however a session ends, its event has a code and a reason.
func testClosedEvents(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	js, err := jetstream.New(b.Conn)
	if err != nil {
		t.Fatal(err)
	}
	events, err := js.OrderedConsumer(t.Context(), "SY_EVENTS", jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{"sy.v1.event.session.closed." + id.RegionID + "." + id.RealmID},
	})
	if err != nil {
		t.Fatal(err)
	}
	feed, err := events.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Stop()
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
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for {
			m, err := feed.Next(jetstream.NextContext(ctx))
			if err != nil {
				t.Fatalf("%s: no event: %v", name, err)
			}
			var e struct {
				SessionID string `json:"session_id"`
				Code      int    `json:"code"`
				Reason    string `json:"reason"`
			}
			if err := json.Unmarshal(m.Data(), &e); err != nil {
				t.Fatal(err)
			}
			if e.SessionID != client.Session { // another test's
				continue
			}
			if e.Code != c.code || e.Reason != c.reason {
				t.Errorf("%s: %s, want %d %q", name, m.Data(), c.code, c.reason)
			}
			break
		}
	}
}
