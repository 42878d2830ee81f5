package registry_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/switchyard-io/switchyard/gateway/internal/registry"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
)

// model is a registry as one would write it without locks, shards and lists.
type model struct {
	reg     *registry.Registry[int]
	max     int
	entries []*modelEntry // every one ever made
	now     time.Time
}

type modelEntry struct {
	*registry.Entry[int]
	state           registry.State
	registered, seq uint64
	dirty           bool
	lastActive      int64
}

func (m *model) in() []*modelEntry {
	var out []*modelEntry
	for _, e := range m.entries {
		if e.state != registry.Unknown && e.state != registry.Gone {
			out = append(out, e)
		}
	}
	return out
}

// pick chooses any entry; the first one is made if there is none.
func (m *model) pick(t *rapid.T) *modelEntry {
	if len(m.entries) == 0 {
		m.begin(t)
	}
	return m.entries[rapid.IntRange(0, len(m.entries)-1).Draw(t, "entry")]
}

// uids are few, so that users have several sessions and slots several users.
var uids = []identity.UID{"eu/main/alice", "eu/main/bob", "eu/main/u22", "us/main/alice"}

func (m *model) begin(t *rapid.T) {
	uid := rapid.SampledFrom(uids).Draw(t, "uid")
	e := &modelEntry{Entry: &registry.Entry[int]{
		ID: identity.NewSessionID(uint8(slot.OfUID(uid))), UID: uid, ConnectedAt: m.now, Handle: len(m.entries),
	}}
	full := len(m.in()) >= m.max
	err := m.reg.Begin(e.Entry)
	if full != errors.Is(err, registry.ErrFull) || !full && err != nil {
		t.Fatalf("begin with %d of %d: %v", len(m.in()), m.max, err)
	}
	if err == nil {
		e.state, e.lastActive = registry.Pending, m.now.UnixMilli()
	}
	m.entries = append(m.entries, e)
}

func (m *model) stamp(t *rapid.T) {
	e := m.pick(t)
	r, ok := m.reg.Stamp(e.Entry)
	want := e.state >= registry.Pending && e.state <= registry.Active
	if ok != want {
		t.Fatalf("stamp in state %d: %v", e.state, ok)
	}
	if ok {
		e.seq++
		e.checkRecord(t, r)
	}
}

func (e *modelEntry) checkRecord(t *rapid.T, r registry.Record[int]) {
	if r.Entry != e.Entry || r.Seq != e.seq || r.LastActive != e.lastActive {
		t.Fatalf("record seq %d active %d, want %d %d", r.Seq, r.LastActive, e.seq, e.lastActive)
	}
}

func (m *model) commit(t *rapid.T) {
	e := m.pick(t)
	ok := m.reg.MarkCommitting(e.Entry, max(e.seq, 1))
	if want := e.state == registry.Pending || e.state == registry.Committing; ok != want {
		t.Fatalf("commit in state %d: %v", e.state, ok)
	}
	if e.state == registry.Pending {
		e.state, e.registered = registry.Committing, max(e.seq, 1)
	}
}

func (m *model) activate(t *rapid.T) {
	e := m.pick(t)
	if ok := m.reg.MarkActive(e.Entry); ok != (e.state == registry.Committing) {
		t.Fatalf("activate in state %d: %v", e.state, ok)
	}
	if e.state == registry.Committing {
		e.state = registry.Active
	}
}

func (m *model) remove(t *rapid.T) {
	e := m.pick(t)
	tomb, ok := m.reg.Remove(e.Entry)
	if want := e.state != registry.Unknown && e.state != registry.Gone; ok != want {
		t.Fatalf("remove in state %d: %v", e.state, ok)
	}
	if !ok {
		return
	}
	e.seq++
	if want := (registry.Tombstone{UID: e.UID, Session: e.ID, Seq: e.seq, State: e.state}); tomb != want {
		t.Fatalf("tombstone %+v, want %+v", tomb, want)
	}
	e.state, e.dirty = registry.Gone, false
}

func (m *model) touch(t *rapid.T) {
	e := m.pick(t)
	m.now = m.now.Add(time.Second)
	m.reg.Touch(e.Entry, m.now)
	e.lastActive = m.now.UnixMilli()
	e.dirty = e.state != registry.Unknown && e.state != registry.Gone
}

func (m *model) requeue(t *rapid.T) {
	e := m.pick(t)
	m.reg.Requeue(e.Entry)
	e.dirty = e.state != registry.Unknown && e.state != registry.Gone
}

func (m *model) drain(t *rapid.T) {
	limit := rapid.IntRange(0, 6).Draw(t, "limit")
	due := 0
	for _, e := range m.entries {
		if e.dirty && e.state == registry.Active {
			due++
		}
	}
	got := m.reg.Drain(limit, nil)
	if len(got) != min(limit, due) {
		t.Fatalf("drained %d, want %d of %d", len(got), limit, due)
	}
	seen := map[slot.Hash]bool{}
	for i, r := range got {
		e := m.entries[r.Handle]
		if !e.dirty || e.state != registry.Active {
			t.Fatalf("drained a session in state %d, dirty %v", e.state, e.dirty)
		}
		if i > 0 && got[i-1].Slot() != r.Slot() && seen[r.Slot()] {
			t.Fatal("a slot's sessions are not together")
		}
		seen[r.Slot()] = true
		e.dirty = false
		e.seq++
		e.checkRecord(t, r)
	}
}

func (m *model) restore(t *rapid.T) {
	h := slot.OfUID(rapid.SampledFrom(uids).Draw(t, "uid"))
	got := m.reg.Restorable(h, nil)
	want := 0
	for _, e := range m.in() {
		if e.state == registry.Active && e.Slot() == h {
			want++
		}
	}
	if len(got) != want {
		t.Fatalf("restorable %d, want %d", len(got), want)
	}
	for _, r := range got {
		e := m.entries[r.Handle]
		e.seq++
		e.checkRecord(t, r)
	}
}

// check compares everything that can be asked.
func (m *model) check(t *rapid.T) {
	active := 0
	for _, e := range m.entries {
		visible := e.state == registry.Committing || e.state == registry.Active
		if e.state == registry.Active {
			active++
		}
		if got, ok := m.reg.Lookup(e.ID); ok != visible || ok && got != e.Entry {
			t.Fatalf("lookup in state %d: %v", e.state, ok)
		}
		for _, seq := range []uint64{0, e.registered - 1, e.registered, e.seq, e.seq + 1} {
			_, ok := m.reg.Exact(e.UID, e.ID, seq)
			if want := visible && seq >= e.registered && seq <= e.seq; ok != want {
				t.Fatalf("exact at %d with %d..%d in state %d: %v", seq, e.registered, e.seq, e.state, ok)
			}
		}
		if got := m.reg.State(e.Entry); got != e.state {
			t.Fatalf("state %d, want %d", got, e.state)
		}
	}
	for _, uid := range uids {
		var want []int
		for _, e := range m.in() {
			if e.UID == uid && e.state >= registry.Committing {
				want = append(want, e.Handle)
			}
		}
		var got []int
		for _, e := range m.reg.User(uid, nil) {
			got = append(got, e.Handle)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("user %s has %v, want %v", uid, got, want)
		}
	}
	if m.reg.Len() != len(m.in()) || len(m.reg.All(nil)) != len(m.in()) || m.reg.Active() != active {
		t.Fatalf("len %d, active %d, want %d, %d", m.reg.Len(), m.reg.Active(), len(m.in()), active)
	}
}

func TestRegistryAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{max: rapid.IntRange(1, 12).Draw(t, "max"), now: time.Unix(1_700_000_000, 0)}
		var err error
		if m.reg, err = registry.New[int](registry.Config{MaxSessions: m.max}); err != nil {
			t.Fatal(err)
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": m.begin, "stamp": m.stamp, "commit": m.commit, "activate": m.activate, "remove": m.remove,
			"touch": m.touch, "requeue": m.requeue, "drain": m.drain, "restore": m.restore, "": m.check,
		})
	})
}
