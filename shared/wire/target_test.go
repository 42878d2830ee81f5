package wire_test

import (
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/wire"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTargetSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := slot.Target{
			Hash: slot.Hash(rapid.Uint8().Draw(t, "hash")), ID: slot.ID(rapid.Uint16().Draw(t, "id")),
			LeaderNode: rapid.String().Draw(t, "node"), LeaderBoot: rapid.String().Draw(t, "boot"),
			Term: rapid.Uint64().Draw(t, "term"), ConfigEpoch: rapid.Uint64().Draw(t, "epoch"), Revision: rapid.Uint64().Draw(t, "revision"),
		}
		b, err := wire.Target(want).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		var p wirepb.Target
		if err := p.UnmarshalVT(b); err != nil {
			t.Fatal(err)
		}
		if got, err := wire.ParseTarget(&p); err != nil || got != want {
			t.Fatalf("got %+v %v, want %+v", got, err, want)
		}
	})
}

func TestTargetRefuses(t *testing.T) {
	for _, p := range []*wirepb.Target{nil, {HashSlot: slot.Count}, {SlotId: 1 << 16}} {
		if _, err := wire.ParseTarget(p); err == nil {
			t.Fatalf("%v was taken", p)
		}
	}
}
