package directory

import (
	"testing"

	"github.com/switchyard-io/switchyard/shared/identity"
)

func TestReplaces(t *testing.T) {
	const slave, master = identity.LevelSlave, identity.LevelMaster
	web := identity.Device{ID: "a", Flag: "web"}
	for _, c := range []struct {
		name         string
		p            Policy
		newer, older identity.Device
		want         bool
	}{
		{"slave, own device", PolicyDevice, app("a", slave), app("a", slave), true},
		{"slave, other device", PolicyDevice, app("a", slave), app("b", slave), false},
		{"slave, other flag", PolicyDevice, app("a", slave), web, false},
		{"unnamed slave, unnamed slave", PolicyDevice, app("", slave), app("", slave), false},
		{"unnamed slave, master", PolicyDevice, app("", slave), app("a", master), false},
		{"slave, master on its own device", PolicyDevice, app("a", slave), app("a", master), true},
		{"slave, master on another device", PolicyDevice, app("a", slave), app("b", master), false},
		{"master, slave", PolicyDevice, app("a", master), app("b", slave), true},
		{"master, unnamed slave", PolicyDevice, app("a", master), app("", slave), true},
		{"unnamed master, master", PolicyDevice, app("", master), app("b", master), true},
		{"master, other flag", PolicyDevice, app("a", master), web, false},
		{"allow multiple", PolicyAllowMultiple, app("a", master), app("a", master), false},
		{"reject new", PolicyRejectNew, app("a", master), app("a", master), false},
		{"kick existing", PolicyKickExisting, app("", slave), web, true},
	} {
		if got := replaces(c.p, c.newer, c.older); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		// Who may replace somebody must be known as such.
		if c.want && !mayReplace(c.p, c.newer) {
			t.Errorf("%s: mayReplace is false", c.name)
		}
	}
}

func TestLaterOrdersAllPairs(t *testing.T) {
	a, b := sessionID(testHash, 1), sessionID(testHash, 2)
	if !later(2, a, 1, b) || later(1, a, 2, b) {
		t.Error("not by time")
	}
	if !later(1, b, 1, a) || later(1, a, 1, b) || later(1, a, 1, a) {
		t.Error("not by id where the time is equal")
	}
}
