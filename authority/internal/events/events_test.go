package events_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/authority/internal/events"
	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/subject"
)

func change(n uint64, online bool) directory.Transition {
	return directory.Transition{UID: "eu/main/alice", Online: online, Hash: 22, Term: 1, N: n, At: 1_700_000_000_123}
}

// TestPublish: what is queued before the end is in the stream after it, and a repeat is there once.
func TestPublish(t *testing.T) {
	nc := natstest.Conn(t, natstest.Server(t).URL())
	p, err := events.New(events.Config{}, nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := p.Setup(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.Setup(ctx); err != nil { // another node does the same
		t.Fatal(err)
	}
	const n = 100
	for i := range uint64(n) {
		p.User(change(i+1, i%2 == 0))
	}
	p.User(change(n, false))
	over, end := context.WithCancel(context.Background())
	end()
	p.Run(over)
	if published, lost, _, queued := p.Counts(); published != n+1 || lost+queued != 0 {
		t.Fatalf("%d published, %d lost, %d queued", published, lost, queued)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(ctx, subject.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(ctx)
	if err != nil || info.State.Msgs != n {
		t.Fatalf("%d in the stream, %v", info.State.Msgs, err)
	}
	m, err := stream.GetMsg(ctx, 2)
	if err != nil {
		t.Fatal(err)
	}
	var e api.UserEvent
	if err := json.Unmarshal(m.Data, &e); err != nil || m.Subject != "sy.v1.event.user.offline.eu.main" || e.Type != "user.offline" ||
		e.N != 2 || e.Term != 1 || e.Slot != 22 || e.At.UnixMilli() != 1_700_000_000_123 {
		t.Fatalf("%s %+v %v", m.Subject, e, err)
	}
}

// TestI12_QueueBound: what does not fit is lost to the stream, counted, and holds up nobody.
func TestI12_QueueBound(t *testing.T) {
	nc := natstest.Conn(t, natstest.Server(t).URL())
	p, err := events.New(events.Config{Queue: 2}, nc)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(5) {
		p.User(change(i, true))
	}
	if _, lost, _, queued := p.Counts(); lost != 3 || queued != 2 {
		t.Fatalf("%d lost, %d queued", lost, queued)
	}
}

// TestNoStream: an event that nobody stores is tried again, and lost in the end.
func TestNoStream(t *testing.T) {
	nc := natstest.Conn(t, natstest.Server(t).URL())
	p, err := events.New(events.Config{Backoff: time.Millisecond}, nc)
	if err != nil {
		t.Fatal(err)
	}
	p.User(change(1, true))
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { p.Run(ctx); close(done) }()
	natstest.Eventually(t, 20*time.Second, "it is lost", func() bool {
		published, lost, retried, _ := p.Counts()
		return published == 0 && lost == 1 && retried == 5
	})
	end()
	<-done
}
