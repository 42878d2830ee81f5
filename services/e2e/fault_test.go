package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/services/e2e/lab"
)

// TestI7_KilledProcesses kills an authority node and then a gateway while presence of connected
// users is asked all the time: those who are connected are never reported offline, and what a dead
// gateway held is gone.
func TestI7_KilledProcesses(t *testing.T) {
	const n = 40
	s := lab.StartSuite(t, lab.Options{Authorities: 2})
	b := s.Backend(t)
	var uids [2][]string // by gateway
	var clients []*lab.Client
	for i := range n {
		id := newUser()
		clients = append(clients, login(t, b, s.Gateways[i%2].GatewayURL(), lab.JSON, id, dev("x")))
		uids[i%2] = append(uids[i%2], id.UID())
	}
	all := append(append([]string{}, uids[0]...), uids[1]...)

	s.Authorities[0].Kill()
	killed := time.Now()
	lab.Eventually(t, 30*time.Second, func() error { return allOnline(t, b, all) })
	t.Logf("authority killed: presence is whole after %s", time.Since(killed).Round(time.Millisecond))
	var r pushReply
	if code := b.Call("sy.v1.push", map[string]any{"users": all, "route": 400, "payload": "after"}, &r); code != "" || r.Delivered != n {
		t.Errorf("push after the takeover: %s, %d delivered, %+v", code, r.Delivered, r.Errors)
	}
	for _, c := range clients {
		c.Push()
	}

	s.Gateways[0].Kill()
	killed = time.Now()
	lab.Eventually(t, 30*time.Second, func() error {
		if err := allOnline(t, b, uids[1]); err != nil {
			t.Fatalf("a gateway died, and on the other one: %v", err)
		}
		for _, u := range presence(t, b, uids[0]...) {
			if u.Status == "online" {
				return fmt.Errorf("%s is online on a dead gateway", u.UID)
			}
		}
		return nil
	})
	t.Logf("gateway killed: its routes are gone after %s", time.Since(killed).Round(time.Millisecond))
}

// allOnline fails the test if a user is reported offline; an error means that one is not known yet.
func allOnline(t *testing.T, b *lab.Backend, uids []string) error {
	t.Helper()
	unknown := 0
	for _, u := range presence(t, b, uids...) {
		switch u.Status {
		case "offline":
			t.Fatalf("%s is connected, but reported offline", u.UID)
		case "unknown":
			unknown++
		}
	}
	if unknown > 0 {
		return errors.New("some are unknown")
	}
	return nil
}
