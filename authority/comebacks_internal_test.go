package authority

import (
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// TestI12_ComebacksAreForgotten: each is told for a while only, and only the latest of a life.
func TestI12_ComebacksAreForgotten(t *testing.T) {
	var c comebacks
	now := time.UnixMilli(1_700_000_000_000)
	told := func(at time.Time) (numbers []uint64) {
		var b wirepb.Beacon
		c.fill(&b, at)
		for _, k := range b.Comebacks {
			numbers = append(numbers, k.Number)
		}
		return numbers
	}
	g1, g2 := directory.Owner{Gateway: "g1", Boot: "b"}, directory.Owner{Gateway: "g2", Boot: "b"}
	c.left(g1)
	if c.heard(g1, 1, now) || told(now) != nil {
		t.Error("a first beacon is no comeback")
	}
	if !c.heard(g1, 2, now) || !c.heard(g1, 3, now) || !c.heard(g2, 9, now) || len(told(now)) != 2 {
		t.Errorf("told %v", told(now))
	}
	c.left(g2)
	if got := told(now); len(got) != 1 || got[0] != 2 {
		t.Errorf("told %v", got)
	}
	if told(now.Add(comebackKept+time.Second)) != nil || len(c.back) != 0 {
		t.Error("not forgotten")
	}
}
