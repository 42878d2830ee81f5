package e2e

import (
	"encoding/json"
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
		users, err := askPresence(b, uids[0])
		if err != nil {
			return err
		}
		for _, u := range users {
			if u.Status == "online" {
				return fmt.Errorf("%s is online on a dead gateway", u.UID)
			}
		}
		return nil
	})
	t.Logf("gateway killed: its routes are gone after %s", time.Since(killed).Round(time.Millisecond))
}

// allOnline fails the test if a user is reported offline; an error means that one is not known yet,
// or that the request was lost with the process that had it.
func allOnline(t *testing.T, b *lab.Backend, uids []string) error {
	t.Helper()
	users, err := askPresence(b, uids)
	if err != nil {
		return err
	}
	unknown := 0
	for _, u := range users {
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

// askPresence asks once, for two seconds: a killed process may have taken the request along.
func askPresence(b *lab.Backend, uids []string) ([]presenceUser, error) {
	data, err := json.Marshal(map[string]any{"users": uids})
	if err != nil {
		return nil, err
	}
	m, err := b.Request("sy.v1.presence", data, 2*time.Second)
	if err != nil {
		return nil, err
	}
	var out presenceReply
	if err := json.Unmarshal(m.Data, &out); err != nil {
		return nil, err
	}
	if len(out.Users) != len(uids) {
		return nil, fmt.Errorf("%d of %d users: %s", len(out.Users), len(uids), m.Data)
	}
	return out.Users, nil
}
