package slot_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/shared/slot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The fence is every field but the revision (I3).
func TestI3_FenceIsEveryFieldButTheRevision(t *testing.T) {
	base := slot.Target{Hash: 1, ID: 1, LeaderNode: "a", LeaderBoot: "b", Term: 3, ConfigEpoch: 1, Revision: 9}
	same := base
	same.Revision = 10
	if !base.SameFence(same) {
		t.Fatal("a revision changes the fence")
	}
	for name, change := range map[string]func(*slot.Target){
		"hash":  func(t *slot.Target) { t.Hash++ },
		"id":    func(t *slot.Target) { t.ID++ },
		"node":  func(t *slot.Target) { t.LeaderNode = "c" },
		"boot":  func(t *slot.Target) { t.LeaderBoot = "c" },
		"term":  func(t *slot.Target) { t.Term++ },
		"epoch": func(t *slot.Target) { t.ConfigEpoch++ },
	} {
		other := base
		change(&other)
		if base.SameFence(other) || other.SameFence(base) {
			t.Errorf("another %s passes the fence", name)
		}
	}
}

func TestNewerIsEpochBeforeTerm(t *testing.T) {
	at := func(epoch, term uint64) slot.Target {
		return slot.Target{ConfigEpoch: epoch, Term: term, Revision: 100 - term}
	}
	order := []slot.Target{at(1, 1), at(1, 2), at(2, 1), at(2, 5), at(3, 0)}
	for i, a := range order {
		for j, b := range order {
			if a.Newer(b) != (i > j) {
				t.Errorf("%+v newer than %+v: %v", a, b, a.Newer(b))
			}
		}
	}
}

func TestLayoutValidate(t *testing.T) {
	for _, c := range []struct {
		layout slot.Layout
		ok     bool
	}{
		{slot.Layout{Logical: slot.DefaultLogical, ConfigEpoch: 1}, true},
		{slot.Layout{Logical: 1, ConfigEpoch: 1}, true},
		{slot.Layout{Logical: 256, ConfigEpoch: 1}, true},
		{slot.Layout{Logical: 0, ConfigEpoch: 1}, false},
		{slot.Layout{Logical: 257, ConfigEpoch: 1}, false},
		{slot.Layout{Logical: 32}, false},
	} {
		if err := c.layout.Validate(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.layout, err)
		}
	}
}
