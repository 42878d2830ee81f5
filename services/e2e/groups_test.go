package e2e

import (
	"fmt"
	"testing"

	"github.com/switchyard-io/switchyard/services/e2e/lab"
)

// maxGroups is the default of GATEWAY_MAX_GROUPS.
const maxGroups = 256

// testTooManyGroups: over the bound a client and a backend are told so, and not to try again.
func testTooManyGroups(t *testing.T, d *deployment) {
	b, id := d.backend(t), newUser()
	c := login(t, b, d.gateways[0], lab.JSON, id, dev("many"), "*")
	group := func(n int) string { return fmt.Sprintf("many-%s-%d", id.UserID, n) }
	for n := range maxGroups {
		if m := c.Request(6, map[string]string{"group": group(n)}); m.Kind != "response" {
			t.Fatalf("join %d: %s %s", n, m.Kind, m.Payload)
		}
	}
	if m := c.Request(6, map[string]string{"group": group(maxGroups)}); m.Code() != "FORBIDDEN" {
		t.Errorf("a client's join over the bound: %s %s", m.Kind, m.Payload)
	}
	join := map[string]any{"group": group(maxGroups), "users": []string{id.UID()}}
	if code := b.Call("sy.v1.group.join", join, nil); code != "FORBIDDEN" {
		t.Errorf("a backend's join over the bound: %q", code)
	}
	if m := c.Request(7, map[string]string{"group": group(0)}); m.Kind != "response" {
		t.Fatalf("leave: %s", m.Payload)
	}
	var changed struct {
		Changed int `json:"changed"`
	}
	if code := b.Call("sy.v1.group.join", join, &changed); code != "" || changed.Changed != 1 {
		t.Errorf("a join when there is room again: %q, %+v", code, changed)
	}
}
