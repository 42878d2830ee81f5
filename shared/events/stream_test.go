package events_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/events"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/subject"
)

// TestStream: what is published before the stream exists and before the end of Run is in it, and a
// repeat is there once.
func TestStream(t *testing.T) {
	nc := natstest.Conn(t, natstest.Server(t).URL())
	caller, err := natsconn.NewCaller(nc, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	p, err := events.New(events.Config{Pause: 10 * time.Millisecond}, caller)
	if err != nil {
		t.Fatal(err)
	}
	run, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(run) }()
	p.Publish(online(1))
	natstest.Eventually(t, 10*time.Second, "it was tried again", func() bool { return p.Stats().Retried > 0 })

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	js, err := natsconn.JetStream(nc)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // another node does the same
		if err := events.Setup(ctx, js, events.Stream{MaxAge: time.Hour, MaxBytes: 1 << 20}); err != nil {
			t.Fatal(err)
		}
	}
	const n = 100
	for i := range uint64(n - 1) {
		p.Publish(online(i + 2))
	}
	p.Publish(online(n))
	end()
	<-done
	if st := p.Stats(); st.Published != n+1 || st.Lost+st.Queued != 0 {
		t.Fatalf("%+v", st)
	}
	s, err := js.Stream(ctx, subject.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(ctx)
	if err != nil || info.State.Msgs != n || info.Config.MaxBytes != 1<<20 || info.Config.Retention != jetstream.LimitsPolicy {
		t.Fatalf("%+v, %v", info, err)
	}
	m, err := s.GetMsg(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	var e api.UserEvent
	if err := json.Unmarshal(m.Data, &e); err != nil || m.Subject != "sy.v1.event.user.online.eu.main" || e != *online(e.N) {
		t.Fatalf("%s %+v %v", m.Subject, e, err)
	}
}
