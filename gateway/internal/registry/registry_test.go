package registry_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/registry"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
)

func newRegistry(t testing.TB, limit int) *registry.Registry[int] {
	t.Helper()
	r, err := registry.New[int](registry.Config{MaxSessions: limit})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func entry(uid identity.UID) *registry.Entry[int] {
	return &registry.Entry[int]{ID: identity.NewSessionID(uint8(slot.OfUID(uid))), UID: uid, ConnectedAt: time.Now()}
}

func activate(t testing.TB, r *registry.Registry[int], e *registry.Entry[int]) {
	t.Helper()
	if err := r.Begin(e); err != nil {
		t.Fatal(err)
	}
	rec, ok := r.Stamp(e)
	if !ok || !r.MarkCommitting(e, rec.Seq) || !r.MarkActive(e) {
		t.Fatal("not activated")
	}
}

func TestI2_OnlyTheExactSessionIsFound(t *testing.T) {
	r := newRegistry(t, 10)
	e, other := entry("eu/main/alice"), entry("eu/main/alice")
	if err := r.Begin(e); err != nil {
		t.Fatal(err)
	}
	rec, _ := r.Stamp(e)
	if _, ok := r.Exact(e.UID, e.ID, rec.Seq); ok {
		t.Fatal("a pending session is addressable")
	}
	if !r.MarkCommitting(e, rec.Seq) {
		t.Fatal("not committing")
	}
	for _, c := range []struct {
		what string
		uid  identity.UID
		id   identity.SessionID
		seq  uint64
		want bool
	}{
		{"the route as it was registered", e.UID, e.ID, rec.Seq, true},
		{"a sequence that was never handed out", e.UID, e.ID, rec.Seq + 1, false},
		{"a sequence before the register", e.UID, e.ID, rec.Seq - 1, false},
		{"another user", "eu/main/bob", e.ID, rec.Seq, false},
		{"another session of the user", e.UID, other.ID, rec.Seq, false},
	} {
		if _, ok := r.Exact(c.uid, c.id, c.seq); ok != c.want {
			t.Errorf("%s: %v", c.what, ok)
		}
	}
	tomb, _ := r.Remove(e)
	if _, ok := r.Exact(e.UID, e.ID, tomb.Seq); ok {
		t.Error("a removed session is addressable")
	}
}

func TestI12_RegistryIsBounded(t *testing.T) {
	r := newRegistry(t, 2)
	a, b, c := entry("eu/main/a"), entry("eu/main/b"), entry("eu/main/c")
	for _, e := range []*registry.Entry[int]{a, b} {
		activate(t, r, e)
	}
	if err := r.Begin(c); !errors.Is(err, registry.ErrFull) {
		t.Fatalf("a third of two: %v", err)
	}
	for range 100 { // however often it is touched, a session is dirty once
		r.Touch(a, time.Now())
		r.Requeue(a)
	}
	if got := r.Drain(1000, nil); len(got) != 1 {
		t.Fatalf("drained %d", len(got))
	}
	r.Touch(b, time.Now())
	r.Remove(b)
	if got := r.Drain(1000, nil); len(got) != 0 {
		t.Fatalf("drained %d removed sessions", len(got))
	}
	if err := r.Begin(c); err != nil {
		t.Fatalf("after a removal: %v", err)
	}
}

func TestI13_AnOldSessionsCloseLeavesTheNewOne(t *testing.T) {
	r := newRegistry(t, 10)
	before, after := entry("eu/main/alice"), entry("eu/main/alice")
	activate(t, r, before)
	activate(t, r, after)
	tomb, ok := r.Remove(before)
	if !ok || tomb.Session != before.ID {
		t.Fatalf("tombstone %+v", tomb)
	}
	if _, again := r.Remove(before); again {
		t.Fatal("removed twice")
	}
	if got := r.User("eu/main/alice", nil); len(got) != 1 || got[0] != after {
		t.Fatalf("left: %v", got)
	}
	if _, ok := r.Exact(after.UID, after.ID, 1); !ok {
		t.Fatal("the newer session is gone")
	}
}

func TestI13_AClosedSessionIsNotActivated(t *testing.T) {
	r := newRegistry(t, 10)
	e := entry("eu/main/alice")
	if err := r.Begin(e); err != nil {
		t.Fatal(err)
	}
	rec, _ := r.Stamp(e)
	r.MarkCommitting(e, rec.Seq)
	tomb, _ := r.Remove(e) // the connection closed while the commit was under way
	if r.MarkActive(e) {
		t.Fatal("a closed session became active")
	}
	if _, ok := r.Stamp(e); ok || tomb.Seq <= rec.Seq {
		t.Fatal("a register could come after the unregister")
	}
}

// TestConcurrentUse has the race detector look at every method.
func TestConcurrentUse(t *testing.T) {
	r := newRegistry(t, 1000)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				e := entry(identity.UID(fmt.Sprintf("eu/main/u%d", (g+i)%16)))
				activate(t, r, e)
				r.Touch(e, time.Now())
				r.Drain(4, nil)
				r.Restorable(e.Slot(), nil)
				r.User(e.UID, nil)
				r.Requeue(e)
				r.Remove(e)
			}
		})
	}
	wg.Wait()
	if r.Len() != 0 || r.Active() != 0 {
		t.Fatalf("left %d, %d active", r.Len(), r.Active())
	}
}

func BenchmarkTouchDrain(b *testing.B) {
	const n = 10_000
	r := newRegistry(b, n)
	entries := make([]*registry.Entry[int], n)
	for i := range entries {
		entries[i] = entry(identity.UID(fmt.Sprintf("eu/main/u%d", i)))
		activate(b, r, entries[i])
	}
	b.ReportAllocs()
	now := time.Now()
	buf := make([]registry.Record[int], 0, 512)
	for b.Loop() {
		for _, e := range entries[:512] {
			r.Touch(e, now)
		}
		buf = r.Drain(512, buf[:0])
	}
}

func BenchmarkBytesPerSession(b *testing.B) {
	const n = 100_000
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		r := newRegistry(b, n)
		for i := range n {
			activate(b, r, entry(identity.UID(fmt.Sprintf("eu/main/u%d", i))))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/session")
		runtime.KeepAlive(r)
	}
}
