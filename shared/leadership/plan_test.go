package leadership

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func drawNodes(rt *rapid.T) []string {
	return rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9-]{1,12}`), 1, 24, rapid.ID[string]).Draw(rt, "nodes")
}

func TestPlanSharesEvenlyWhateverTheOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		nodes := drawNodes(rt)
		slots := rapid.IntRange(1, 256).Draw(rt, "slots")
		wish := Plan(nodes, slots)
		load := map[string]int{}
		for id, n := range wish {
			if !slices.Contains(nodes, n) {
				rt.Fatalf("slot %d goes to %q", id, n)
			}
			load[n]++
		}
		share := (slots + len(nodes) - 1) / len(nodes)
		for n, l := range load {
			if l > share {
				rt.Fatalf("%s has %d slots, its share is %d", n, l, share)
			}
		}
		shuffled := slices.Clone(nodes)
		rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if !slices.Equal(wish, Plan(shuffled, slots)) {
			rt.Fatal("the plan depends on the order of the nodes")
		}
	})
}

// When a node goes, its slots move; of the others few, and never more than twice what it had in all.
func TestPlanMovesLittle(t *testing.T) {
	worst, total, ideal := 0.0, 0, 0
	for n := 2; n <= 12; n++ {
		for seed := range 20 {
			var nodes []string
			for i := range n {
				nodes = append(nodes, fmt.Sprintf("authority-%d-%d", seed, i))
			}
			before, after := Plan(nodes, 64), Plan(nodes[1:], 64)
			moved, had := 0, 0
			for id := range before {
				if before[id] == nodes[0] {
					had++
				}
				if before[id] != after[id] {
					moved++
				}
			}
			total, ideal = total+moved, ideal+had
			worst = max(worst, float64(moved)/float64(max(1, had)))
		}
	}
	ratio := float64(total) / float64(ideal)
	t.Logf("moved %.2f times what had to, at worst %.2f", ratio, worst)
	if ratio > 2 || worst > 6 {
		t.Errorf("moved %.2f times what had to, at worst %.2f", ratio, worst)
	}
}

func TestPlanOfNobody(t *testing.T) {
	if Plan(nil, 32) != nil || Plan([]string{"a"}, 0) != nil {
		t.Error("a plan for nobody, or for nothing")
	}
	if got := wishes([]Owner{{"a", "1"}, {"a", "2"}}, 1); got[0] != (Owner{"a", "2"}) {
		t.Errorf("of two lives of a node the younger leads, not %v", got[0])
	}
}

func BenchmarkPlan(b *testing.B) {
	nodes := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	b.ReportAllocs()
	for b.Loop() {
		Plan(nodes, 256)
	}
}
