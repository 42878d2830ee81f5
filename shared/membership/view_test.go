package membership

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script drives a view with a clock of its own.
type script struct {
	v      *view
	now    time.Time
	seq    uint64
	events []Event
	// answer says what comes of a probe: "gone", "here" or "" for silence.
	answer    func(k key) string
	connected bool
	reconn    uint64
}

func newScript(cfg Config) *script {
	return &script{
		v: newView(cfg.withDefaults()), now: time.Unix(1_000_000, 0), connected: true,
		answer: func(key) string { return "" },
	}
}

func (s *script) beacon(service, node, boot, state string) bool {
	s.seq++
	ev, ok := s.v.beacon(s.now, &wirepb.Beacon{Service: service, NodeId: node, BootId: boot, State: state, Sequence: s.seq})
	s.events = append(s.events, ev...)
	return ok
}

// pass lets time pass, tick by tick.
func (s *script) pass(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); {
		s.now = s.now.Add(tickEvery)
		ev, probes := s.v.tick(s.now, s.connected, s.reconn)
		s.events = append(s.events, ev...)
		for _, p := range probes {
			if a := s.answer(p.key); a != "" {
				s.events = append(s.events, s.v.probed(s.now, p.token, a == "gone")...)
			}
		}
	}
}

// left returns the reason of the last Left event since the last call; "" none.
func (s *script) left() Reason {
	var r Reason
	for _, ev := range s.events {
		if ev.Kind == Left {
			r = ev.Reason
		}
	}
	s.events = nil
	return r
}

func gone(key) string { return "gone" }
func here(key) string { return "here" }

func TestDeadLifeIsGoneAfterThreeBeacons(t *testing.T) {
	for service, after := range map[string]time.Duration{"authority": 1500 * time.Millisecond, "gateway": 2250 * time.Millisecond} {
		s := newScript(Config{})
		s.pass(time.Second)
		s.beacon(service, "n", "b", lifecycle.Ready)
		s.answer = gone
		s.pass(after - tickEvery)
		if r := s.left(); r != "" {
			t.Errorf("%s: gone too early: %s", service, r)
		}
		s.pass(3 * tickEvery)
		if r := s.left(); r != NoResponders {
			t.Errorf("%s: left with %q", service, r)
		}
		if got := s.v.status(key{service, "n", "b"}); got != Gone {
			t.Errorf("%s: status %d", service, got)
		}
	}
}

func TestHungLifeIsSilentFirst(t *testing.T) {
	s := newScript(Config{})
	k := key{"authority", "n", "b"}
	s.pass(time.Second)
	s.beacon(k.service, k.node, k.boot, lifecycle.Ready)
	s.pass(2 * time.Second)
	if got := s.v.status(k); got != Quiet {
		t.Fatalf("status %d, want quiet", got)
	}
	s.pass(13 * time.Second)
	if r := s.left(); r != "" {
		t.Fatalf("left too early: %s", r)
	}
	s.pass(1500 * time.Millisecond)
	if r := s.left(); r != Silent || s.v.status(k) != Hung {
		t.Fatalf("left with %q, status %d", r, s.v.status(k))
	}
	s.beacon(k.service, k.node, k.boot, lifecycle.Ready)
	if s.v.status(k) != Live || s.events[0].Kind != Joined {
		t.Fatal("a life that woke up did not join again")
	}
}

func TestProbeAnswerKeepsALife(t *testing.T) {
	s := newScript(Config{})
	s.pass(time.Second)
	s.beacon("authority", "n", "b", lifecycle.Ready)
	s.answer = here
	s.pass(time.Minute)
	if r := s.left(); r != "" {
		t.Fatalf("left with %q", r)
	}
}

func TestOwnTroubleBlamesNobody(t *testing.T) {
	s := newScript(Config{})
	s.pass(2 * time.Second)
	s.beacon("gateway", "n", "b", lifecycle.Ready)
	s.answer = gone
	s.connected = false
	s.pass(time.Minute)
	s.connected, s.reconn = true, 1
	s.pass(4 * time.Second)
	if r := s.left(); r != "" {
		t.Fatalf("left with %q in the grace", r)
	}
	if !s.v.settled(s.now) {
		t.Error("not settled 4 s after a reconnect")
	}
	s.beacon("gateway", "n", "b", lifecycle.Ready)
	s.now = s.now.Add(time.Minute) // this process was paused
	s.pass(time.Second)
	if r := s.left(); r != "" {
		t.Fatalf("left with %q right after a pause", r)
	}
	s.pass(2 * time.Second)
	if r := s.left(); r != NoResponders {
		t.Fatalf("left with %q", r)
	}
}

func TestStoppedIsGoneAtOnceAndLateBeaconsDoNotRevive(t *testing.T) {
	s := newScript(Config{})
	s.pass(time.Second)
	s.beacon("gateway", "n", "b", lifecycle.Ready)
	late := s.seq
	s.beacon("gateway", "n", "b", lifecycle.Stopped)
	if r := s.left(); r != Stopped {
		t.Fatalf("left with %q", r)
	}
	ev, ok := s.v.beacon(s.now, &wirepb.Beacon{Service: "gateway", NodeId: "n", BootId: "b", State: lifecycle.Ready, Sequence: late})
	if len(ev) != 0 || !ok || len(s.v.lives) != 0 {
		t.Fatal("a late beacon revived a stopped life")
	}
}

func TestSuspectedLifeIsProbed(t *testing.T) {
	s := newScript(Config{})
	s.pass(time.Second)
	k := key{"authority", "n", "b"}
	s.v.suspect(s.now, k)
	if s.v.status(k) != Quiet {
		t.Fatalf("status %d", s.v.status(k))
	}
	s.answer = gone
	s.pass(700 * time.Millisecond)
	if s.v.status(k) != Gone || s.left() != "" {
		t.Fatalf("status %d; or a Left without Joined", s.v.status(k))
	}
}

func TestNewLifeHurriesTheOldOne(t *testing.T) {
	s := newScript(Config{})
	s.pass(time.Second)
	s.beacon("gateway", "n", "b1", lifecycle.Ready)
	s.answer = gone
	s.beacon("gateway", "n", "b2", lifecycle.Ready)
	s.pass(600 * time.Millisecond)
	if s.v.status(key{"gateway", "n", "b1"}) != Gone || s.v.status(key{"gateway", "n", "b2"}) != Live {
		t.Fatal("the former life was not found out")
	}
}

// I12: whatever comes, the maps keep their bounds, events alternate, and probes stay in step.
func TestI12_ViewStaysBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const limit = 4
		s := newScript(Config{MaxNodes: limit})
		known := map[key]bool{}
		s.answer = func(key) string { return rapid.SampledFrom([]string{"", "gone", "here"}).Draw(rt, "answer") }
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			node := fmt.Sprintf("n%d", rapid.IntRange(0, 7).Draw(rt, "node"))
			boot := fmt.Sprintf("b%d", rapid.IntRange(0, 1).Draw(rt, "boot"))
			switch rapid.IntRange(0, 4).Draw(rt, "op") {
			case 0, 1:
				s.beacon("gateway", node, boot, lifecycle.Ready)
			case 2:
				s.beacon("gateway", node, boot, lifecycle.Stopped)
			case 3:
				s.v.suspect(s.now, key{"gateway", node, boot})
			case 4:
				s.connected = rapid.Bool().Draw(rt, "connected")
				s.pass(time.Duration(rapid.IntRange(1, 30).Draw(rt, "tenths")) * 100 * time.Millisecond)
			}
			for _, ev := range s.events {
				k := key{ev.Node.Service, ev.Node.ID, ev.Node.Boot}
				if (ev.Kind == Joined) == known[k] {
					rt.Fatalf("event %d out of order for %v", ev.Kind, k)
				}
				switch ev.Kind {
				case Joined:
					known[k] = true
				case Left:
					delete(known, k)
				case Beaconed:
				}
			}
			s.events = nil
			if len(s.v.lives) > limit || len(s.v.gone) > limit || len(s.v.asked) > len(s.v.lives) {
				rt.Fatalf("beyond the bound: %d lives, %d gone, %d asked", len(s.v.lives), len(s.v.gone), len(s.v.asked))
			}
			for token, k := range maps.All(s.v.asked) {
				if l := s.v.lives[k]; l == nil || l.token != token {
					rt.Fatalf("a probe of nobody: %v", k)
				}
			}
		}
	})
}
