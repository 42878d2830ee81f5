package lifecycle

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func TestMachineKeepsToItsTransitions(t *testing.T) {
	all := []string{Starting, Ready, Draining, Stopped}
	allowed := map[[2]string]bool{
		{Starting, Ready}: true, {Starting, Draining}: true, {Starting, Stopped}: true,
		{Ready, Draining}: true, {Ready, Stopped}: true,
		{Draining, Ready}: true, {Draining, Stopped}: true,
	}
	rapid.Check(t, func(t *rapid.T) {
		var m Machine
		at := Starting
		for _, to := range rapid.SliceOf(rapid.SampledFrom(all)).Draw(t, "moves") {
			changed, err := m.Move(to)
			switch {
			case at == to:
				if changed || err != nil {
					t.Fatalf("%s -> %s: %v %v", at, to, changed, err)
				}
			case allowed[[2]string{at, to}]:
				if !changed || err != nil {
					t.Fatalf("%s -> %s: %v %v", at, to, changed, err)
				}
				at = to
			default:
				if changed || !errors.Is(err, ErrTransition) {
					t.Fatalf("%s -> %s: %v %v", at, to, changed, err)
				}
			}
			if m.State() != at || (m.CheckReady() == nil) != (at == Ready) {
				t.Fatalf("state %s, check %v, want %s", m.State(), m.CheckReady(), at)
			}
		}
	})
}

func TestMachineChangesOnceForMany(t *testing.T) {
	var m Machine
	var wg sync.WaitGroup
	changes := make(chan bool, 16)
	for range cap(changes) {
		wg.Go(func() {
			changed, err := m.Move(Ready)
			if err != nil {
				t.Error(err)
			}
			changes <- changed
		})
	}
	wg.Wait()
	close(changes)
	n := 0
	for c := range changes {
		if c {
			n++
		}
	}
	if n != 1 {
		t.Fatalf("%d of 16 changed the state", n)
	}
}

func TestFailKeepsTheFirst(t *testing.T) {
	var m Machine
	m.Fail(errBroken)
	m.Fail(errors.New("second"))
	if err := <-m.Failed(); !errors.Is(err, errBroken) {
		t.Fatalf("got %v", err)
	}
	select {
	case err := <-m.Failed():
		t.Fatalf("a second one: %v", err)
	default:
	}
}

func TestStagesGroupNeighbours(t *testing.T) {
	j := &journal{}
	a, g1, g2, w := newFake(j, Authority, "a"), newFake(j, Gateway, "g1"), newFake(j, Gateway, "g2"), newFake(j, Worldrouter, "w")
	got := stages([]Service{a, g1, g2, w})
	var sizes []int
	for _, s := range backwards(got) {
		sizes = append(sizes, len(s))
	}
	if !slices.Equal(sizes, []int{1, 2, 1}) || got[0][0] != Service(a) {
		t.Fatalf("stages of %v", sizes)
	}
}
