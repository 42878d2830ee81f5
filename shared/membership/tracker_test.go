package membership_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/membership"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// run starts f and returns how to end it.
func run(t *testing.T, f func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := f(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return stop
}

func track(t *testing.T, nc *nats.Conn) (*membership.Tracker, chan membership.Event) {
	t.Helper()
	tr := membership.NewTracker(nc, membership.Config{})
	events := make(chan membership.Event, 256)
	t.Cleanup(tr.Subscribe(func(ev membership.Event) {
		if ev.Kind != membership.Beaconed {
			events <- ev
		}
	}))
	run(t, tr.Run)
	return tr, events
}

func expect(t *testing.T, events chan membership.Event, kind membership.EventKind, within time.Duration) membership.Event {
	t.Helper()
	select {
	case ev := <-events:
		if ev.Kind != kind {
			t.Fatalf("event %d, want %d", ev.Kind, kind)
		}
		return ev
	case <-time.After(within):
		t.Fatalf("no event %d within %s", kind, within)
	}
	panic("unreachable")
}

func TestLifeComesAndStops(t *testing.T) {
	url := natstest.Server(t).URL()
	tr, events := track(t, natstest.Conn(t, url))
	node := lifecycle.NewNode("gateway", "g1")
	var sessions atomic.Uint64
	a := membership.NewAnnouncer(natstest.Conn(t, url), node, func(b *wirepb.Beacon) {
		b.State, b.Sessions, b.Eligible = lifecycle.Ready, sessions.Load(), true
	})
	stop := run(t, a.Run)
	ev := expect(t, events, membership.Joined, 2*time.Second)
	if ev.Node.ID != "g1" || ev.Node.Boot != node.Boot || ev.Node.State != lifecycle.Ready || !ev.Node.Eligible || ev.Beacon == nil {
		t.Fatalf("joined: %+v", ev.Node)
	}
	natstest.Eventually(t, 5*time.Second, "settled", tr.Settled)
	sessions.Store(7)
	a.Pulse()
	natstest.Eventually(t, 2*time.Second, "sessions are told", func() bool {
		live := tr.Live("gateway")
		return len(live) == 1 && live[0].Sessions == 7
	})
	if !tr.Alive("gateway", "g1", node.Boot) || tr.Alive("gateway", "g1", "other") || len(tr.Live("authority")) != 0 || len(tr.Nodes()) != 1 {
		t.Fatal("the view is wrong")
	}
	stop()
	if ev = expect(t, events, membership.Left, time.Second); ev.Reason != membership.Stopped || ev.Node.State != lifecycle.Stopped {
		t.Fatalf("left: %+v", ev)
	}
	if tr.Alive("gateway", "g1", node.Boot) {
		t.Fatal("alive after it stopped")
	}
}

func TestLifeWhoseConnectionDies(t *testing.T) {
	url := natstest.Server(t).URL()
	tr, events := track(t, natstest.Conn(t, url))
	node := lifecycle.NewNode("authority", "a1")
	nc := natstest.Conn(t, url)
	run(t, membership.NewAnnouncer(nc, node, nil).Run)
	expect(t, events, membership.Joined, 2*time.Second)
	natstest.Eventually(t, 5*time.Second, "settled", tr.Settled)
	nc.Close()
	begin := time.Now()
	if ev := expect(t, events, membership.Left, 4*time.Second); ev.Reason != membership.NoResponders {
		t.Fatalf("left: %+v", ev)
	}
	t.Logf("found out after %s", time.Since(begin))
	if got := tr.Status("authority", "a1", node.Boot); got != membership.Gone {
		t.Fatalf("status %d", got)
	}
}

// A tracker whose own connection breaks keeps everybody, and is unsettled for a while.
func TestOwnReconnectKeepsOthers(t *testing.T) {
	url := natstest.Server(t).URL()
	nc := natstest.Conn(t, url)
	tr, events := track(t, nc)
	node := lifecycle.NewNode("gateway", "g1")
	run(t, membership.NewAnnouncer(natstest.Conn(t, url), node, nil).Run)
	expect(t, events, membership.Joined, 2*time.Second)
	natstest.Eventually(t, 5*time.Second, "settled", tr.Settled)
	if err := nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, 5*time.Second, "unsettled", func() bool { return !tr.Settled() })
	natstest.Eventually(t, 5*time.Second, "settled again", tr.Settled)
	if !tr.Alive("gateway", "g1", node.Boot) || len(events) != 0 {
		t.Fatal("a reconnect of our own cost a life")
	}
}

// A beacon that names another life than its subject is ignored.
func TestForgedBeaconIsIgnored(t *testing.T) {
	nc := natstest.Conn(t, natstest.Server(t).URL())
	tr, _ := track(t, nc)
	data, err := (&wirepb.Beacon{Service: "gateway", NodeId: "victim", BootId: "b", State: lifecycle.Stopped}).MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	right, err := (&wirepb.Beacon{Service: "gateway", NodeId: "other", BootId: "b", State: lifecycle.Ready, Sequence: 1}).MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, 2*time.Second, "the right beacon is heard", func() bool {
		for _, d := range [][]byte{data, []byte("junk"), right} {
			if err := nc.Publish(subject.Beacon("gateway", "other", "b"), d); err != nil {
				t.Fatal(err)
			}
		}
		return tr.Alive("gateway", "other", "b")
	})
	if tr.Status("gateway", "victim", "b") != membership.Unknown {
		t.Fatal("a forged beacon was believed")
	}
}
