package leader_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/authority/internal/delivery"
	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/authority/internal/leader"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/leadership"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// deaf owners end every call at once.
type deaf struct{}

func (deaf) Call(_ string, _ []byte, _ nats.Header, _ time.Time, cb natsconn.Callback) error {
	cb(nil, fault.ErrTimeout)
	return nil
}

// BenchmarkPush is one push for one user with one session, from the fence to the encoded batch.
func BenchmarkPush(b *testing.B) {
	entry := leadership.Entry{Leader: leadership.Owner{Node: "a1", Boot: "ab"}, Term: 1, ConfigEpoch: 1}
	dir, err := directory.New(directory.Config{}, time.Now())
	if err != nil {
		b.Fatal(err)
	}
	links := delivery.New(delivery.Config{}, deaf{})
	defer links.Close()
	l := leader.New(leader.Config{}, slot.Layout{Logical: 1, ConfigEpoch: 1}, dir, links, func(slot.ID) (leadership.Entry, bool) { return entry, true })
	if err := l.Open(0, entry, true, nil, time.Now()); err != nil {
		b.Fatal(err)
	}
	t := entry.Target(slot.OfUID(alice), 0)
	if _, err := l.Restore(t, owner, []directory.Route{route(owner, "phone", 1)}, false, time.Now()); err != nil {
		b.Fatal(err)
	}
	users, p := []identity.UID{alice}, &wirepb.Push{Route: 100, Payload: make([]byte, 256)}
	done := func(leader.Outcome) {}
	b.ReportAllocs()
	for b.Loop() {
		l.Push(leader.Order{Target: t, Users: users, Push: p, Done: done})
	}
}
