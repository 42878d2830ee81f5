package leadership

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/membership"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

const never = 24 * time.Hour

// newTable runs a table whose feeds the test chooses.
func newTable(t *testing.T, nc *nats.Conn, cfg TableConfig) *Table {
	t.Helper()
	tracker := membership.NewTracker(nc, membership.Config{})
	table, err := NewTable(cfg, slot.Layout{Logical: logical, ConfigEpoch: 1}, nc, tracker)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = tracker.Run(ctx) })
	wg.Go(func() { _ = table.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	natstest.Eventually(t, 5*time.Second, "the table is synced", table.Synced)
	return table
}

// slotsBucket makes the bucket, with or without the republished feed.
func slotsBucket(t *testing.T, nc *nats.Conn, republish bool) bucket {
	t.Helper()
	js, err := natsconn.JetStream(nc)
	if err != nil {
		t.Fatal(err)
	}
	cfg := jetstream.KeyValueConfig{Bucket: subject.BucketSlots}
	if republish {
		cfg.RePublish = &jetstream.RePublish{Source: subject.TableSlotsSource, Destination: subject.TableSlotsDestination}
	}
	if _, err := js.CreateKeyValue(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return bucket{nc, subject.BucketSlots}
}

func store(t *testing.T, b bucket, id slot.ID, e Entry) Entry {
	t.Helper()
	v, err := b.get(t.Context(), subject.SlotKey(id))
	if err != nil {
		t.Fatal(err)
	}
	if e.Revision, err = b.put(t.Context(), subject.SlotKey(id), e.encode(), v.seq, 0); err != nil {
		t.Fatal(err)
	}
	return e
}

func led(node string, term uint64) Entry {
	return Entry{Leader: Owner{node, "boot"}, Term: term, ConfigEpoch: 1}
}

func TestTableIsFedByChangesAlone(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t, natstest.Server(t).URL())
	b := slotsBucket(t, nc, true)
	table := newTable(t, nc, TableConfig{Service: "none", ListEvery: never})
	changed := table.Changed()
	want := store(t, b, 5, led("a", 1))
	natstest.Eventually(t, 5*time.Second, "the change arrives", func() bool { return table.Snapshot().Entry(5) == want })
	select {
	case <-changed:
	default:
		t.Error("Changed was not closed")
	}
	if target, ok := table.Snapshot().Target(5 + logical); !ok || target.LeaderNode != "a" || target.ID != 5 || target.Revision != want.Revision {
		t.Errorf("target %+v, %v", target, ok)
	}
}

func TestTableIsFedByBeaconsAlone(t *testing.T) {
	t.Parallel()
	url := natstest.Server(t).URL()
	nc := natstest.Conn(t, url)
	slotsBucket(t, nc, false)
	table := newTable(t, nc, TableConfig{ListEvery: never})
	node := lifecycle.NewNode("authority", "a")
	a := membership.NewAnnouncer(natstest.Conn(t, url), node, func(bc *wirepb.Beacon) {
		bc.Slots = []*wirepb.SlotClaim{
			{SlotId: 3, Term: 4, ConfigEpoch: 1, Rebuilding: true, Routes: 12},
			{SlotId: 9999, Term: 4, ConfigEpoch: 1},
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = a.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	natstest.Eventually(t, 5*time.Second, "the claim arrives", func() bool {
		return table.Snapshot().Entry(3).Leader == Owner{"a", node.Boot}
	})
	if l, known := table.Load(3); !known || !l.Rebuilding || l.Routes != 12 {
		t.Errorf("load %+v, %v", l, known)
	}
	if _, known := table.Load(4); known {
		t.Error("the load of a slot of which nobody spoke")
	}
}

func TestTableIsFedByListingsAlone(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t, natstest.Server(t).URL())
	b := slotsBucket(t, nc, false)
	table := newTable(t, nc, TableConfig{Service: "none", ListEvery: 150 * time.Millisecond})
	want := store(t, b, 31, led("a", 2))
	natstest.Eventually(t, 5*time.Second, "the record is listed", func() bool { return table.Snapshot().Entry(31) == want })
	if s := table.Staleness(); s > 3*time.Second {
		t.Errorf("stale for %s", s)
	}
}

// A jump in the republished sequence shows that changes were missed: the bucket is listed.
func TestTableListsAfterAGap(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t, natstest.Server(t).URL())
	b := slotsBucket(t, nc, false) // what follows is not republished by the server: all missed
	table := newTable(t, nc, TableConfig{Service: "none", ListEvery: never})
	say := func(seq string) {
		m := nats.NewMsg(subject.TableSlot(0))
		m.Header.Set(subject.HeaderSequence, seq)
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	say("1")
	want := store(t, b, 8, led("a", 1))
	say("3")
	natstest.Eventually(t, 5*time.Second, "the gap is filled", func() bool { return table.Snapshot().Entry(8) == want })
}

// A table whose connection was away catches up.
func TestTableListsAfterAReconnect(t *testing.T) {
	t.Parallel()
	url := natstest.Server(t).URL()
	b := slotsBucket(t, natstest.Conn(t, url), true)
	p := newProxy(t, url)
	nc := natstest.Conn(t, p.url())
	table := newTable(t, nc, TableConfig{Service: "none", ListEvery: never})
	p.cut(true)
	natstest.Eventually(t, 5*time.Second, "disconnected", func() bool { return !nc.IsConnected() })
	want := store(t, b, 8, led("a", 1))
	p.cut(false)
	natstest.Eventually(t, 10*time.Second, "the missed change is found", func() bool { return table.Snapshot().Entry(8) == want })
}

// The highest (config epoch, term) wins, in whatever order the feeds speak.
func TestTableKeepsTheHighest(t *testing.T) {
	t.Parallel()
	nc := natstest.Conn(t, natstest.Server(t).URL())
	slotsBucket(t, nc, true)
	table := newTable(t, nc, TableConfig{Service: "none", ListEvery: never})
	var mu sync.Mutex
	var terms []uint64
	t.Cleanup(table.Subscribe(func(_ slot.ID, _, now Entry) {
		mu.Lock()
		defer mu.Unlock()
		terms = append(terms, now.Term)
	}))
	released := Entry{Term: 5, ConfigEpoch: 1}
	for _, e := range []Entry{led("a", 4), led("b", 5), led("a", 4), released, led("b", 5), led("c", 6)} {
		table.apply(0, e, feedSelf)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(terms) != 4 || terms[3] != 6 {
		t.Errorf("told of terms %v, want 4 5 5 6", terms)
	}
}

func TestSetupAgreesOnTheLayout(t *testing.T) {
	t.Parallel()
	js, err := natsconn.JetStream(natstest.Conn(t, natstest.Server(t).URL()))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	l, err := Setup(ctx, js, 1, 16)
	if err != nil || l.Logical != 16 || l.ConfigEpoch != 1 {
		t.Fatalf("%+v, %v", l, err)
	}
	if l, err = Setup(ctx, js, 1, 0); err != nil || l.Logical != 16 {
		t.Fatalf("without a number of one's own: %+v, %v", l, err)
	}
	for _, bad := range []int{32, -1, 257} {
		if _, err = Setup(ctx, js, 1, bad); err == nil {
			t.Errorf("%d logical slots were accepted", bad)
		}
	}
}
