package presence

import (
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/registry"
	"github.com/switchyard-io/switchyard/shared/identity"
)

func TestFromRegistry(t *testing.T) {
	reg, err := registry.New[string](registry.Config{MaxSessions: 10})
	if err != nil {
		t.Fatal(err)
	}
	var replaced []string
	s := FromRegistry(reg, func(h string) { replaced = append(replaced, h) })
	e := &registry.Entry[string]{
		ID: identity.NewSessionID(22), UID: "eu/main/alice", Device: identity.Device{ID: "phone", Flag: "app"},
		Listener: "ws", ConnectedAt: time.UnixMilli(1000), Handle: "handle",
	}
	if err := reg.Begin(e); err != nil {
		t.Fatal(err)
	}
	first, _ := reg.Stamp(e)
	reg.MarkCommitting(e, first.Seq)
	reg.Touch(e, time.UnixMilli(2000))
	if _, ok := s.Active(e.ID); ok || len(s.InSlot(nil, 22)) != 0 || len(s.Dirty(nil, 9)) != 0 {
		t.Fatal("a session that is not active is told")
	}
	reg.MarkActive(e)
	touched := s.Dirty(nil, 9)
	if len(touched) != 1 || len(s.Dirty(nil, 9)) != 0 {
		t.Fatalf("dirty: %v", touched)
	}
	want := Record{
		UID: e.UID, Session: e.ID, Device: e.Device, Listener: "ws", OwnerSeq: first.Seq + 1,
		ConnectedAt: time.UnixMilli(1000), LastActive: time.UnixMilli(2000),
	}
	if touched[0] != want {
		t.Fatalf("got %+v, want %+v", touched[0], want)
	}
	s.Requeue(e.ID)
	if again := s.Dirty(nil, 9); len(again) != 1 || again[0].OwnerSeq <= want.OwnerSeq {
		t.Fatalf("queued again: %v", again)
	}
	if whole := s.InSlot(nil, 22); len(whole) != 1 || len(s.InSlot(nil, 23)) != 0 {
		t.Fatalf("in slot: %v", whole)
	}
	if r, ok := s.Active(e.ID); !ok || r.Session != e.ID {
		t.Fatal("an active session is not found")
	}
	s.Replaced(e.ID)
	reg.Remove(e)
	s.Replaced(e.ID)
	s.Requeue(e.ID)
	if _, ok := s.Active(e.ID); ok || len(replaced) != 1 || replaced[0] != "handle" {
		t.Fatalf("after the end: replaced %v", replaced)
	}
}
