package slot_test

import (
	"fmt"
	"hash/fnv"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
)

func TestVectors(t *testing.T) {
	if got := slot.Of("eu", "main", "alice"); got != 22 {
		t.Fatalf("eu/main/alice: slot %d, want 22", got)
	}
}

func TestOfUIDEqualsOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		region := rapid.StringMatching(`[A-Za-z0-9_-]{1,32}`).Draw(t, "region")
		realm := rapid.StringMatching(`[A-Za-z0-9_-]{1,32}`).Draw(t, "realm")
		user := rapid.StringMatching(`[ -~]{1,64}`).Draw(t, "user")
		uid, err := identity.NewUID(region, realm, user)
		if err != nil {
			t.Fatal(err)
		}
		ref := fnv.New32a()
		_, _ = ref.Write([]byte(region + realm + user))
		want := slot.Hash(ref.Sum32() % slot.Count)
		if slot.Of(region, realm, user) != want || slot.OfUID(uid) != want {
			t.Fatalf("%s: %d and %d, want %d", uid, slot.Of(region, realm, user), slot.OfUID(uid), want)
		}
	})
}

func TestLayoutPartitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := slot.Layout{Logical: rapid.IntRange(1, slot.Count).Draw(t, "logical"), ConfigEpoch: 1}
		seen := map[slot.Hash]bool{}
		for id := range slot.ID(l.Logical) {
			for _, h := range l.Hashes(id) {
				if seen[h] || l.ID(h) != id {
					t.Fatalf("hash slot %d: twice or in the wrong logical slot", h)
				}
				seen[h] = true
			}
		}
		if len(seen) != slot.Count {
			t.Fatalf("%d hash slots covered", len(seen))
		}
	})
}

func BenchmarkOfUID(b *testing.B) {
	uids := make([]identity.UID, 512)
	for i := range uids {
		uids[i] = identity.UID(fmt.Sprintf("eu/main/player-%08d", i))
	}
	var sum slot.Hash
	b.ReportAllocs()
	for b.Loop() {
		for _, u := range uids {
			sum += slot.OfUID(u)
		}
	}
	_ = sum
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(uids)), "ns/uid")
}
