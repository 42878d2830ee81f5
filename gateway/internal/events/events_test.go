package events_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/gateway/internal/events"
	"github.com/switchyard-io/switchyard/gateway/internal/session"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/natsconn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stream is a Caller that answers as JetStream would, or as the test says.
type stream struct {
	fail  func() (stop bool) // true: no answer in time
	ids   []string
	stuck bool // keep what comes, without any answer
	last  []byte
}

func (s *stream) Call(_ string, data []byte, hdr nats.Header, _ time.Time, cb natsconn.Callback) error {
	s.ids, s.last = append(s.ids, hdr.Get("Nats-Msg-Id")), data
	switch {
	case s.stuck:
	case s.fail != nil && s.fail():
		cb(nil, fault.ErrTimeout)
	default:
		cb(&nats.Msg{Data: []byte(`{"stream":"SY_EVENTS","seq":1}`)}, nil)
	}
	return nil
}

func start(t *testing.T, s *stream, cfg events.Config) (*events.Publisher, func()) {
	t.Helper()
	cfg.Gateway, cfg.Boot = "g1", "b1"
	p, err := events.New(cfg, s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	return p, func() { cancel(); <-done }
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stream{}
		p, stop := start(t, s, events.Config{})
		p.Authenticated(&session.Session{})
		p.Closed(&session.Session{}, fault.CloseReplaced, "elsewhere")
		synctest.Wait()
		var e map[string]any
		if err := json.Unmarshal(s.last, &e); err != nil || e["type"] != "session.closed" || e["n"] != 2.0 || e["code"] != 4502.0 ||
			e["reason"] != "elsewhere" || e["gateway_id"] != "g1" || e["boot_id"] != "b1" {
			t.Errorf("%s %v", s.last, err)
		}
		stop()
		if st := p.Stats(); st != (events.Stats{Published: 2}) || s.ids[0] == s.ids[1] {
			t.Errorf("%+v %v", st, s.ids)
		}
	})
}

func TestARepeatHasTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 2
		s := &stream{fail: func() bool { failures--; return failures >= 0 }}
		p, stop := start(t, s, events.Config{})
		p.Authenticated(&session.Session{})
		<-time.After(10 * time.Second) // synthetic
		stop()
		if st := p.Stats(); st != (events.Stats{Published: 1, Retried: 2}) || len(s.ids) != 3 || s.ids[0] != s.ids[2] {
			t.Errorf("%+v %v", st, s.ids)
		}
	})
}

func TestI12_EventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stream{stuck: true}
		p, stop := start(t, s, events.Config{Queue: 4, InFlight: 2})
		for range 10 {
			p.Authenticated(&session.Session{})
			synctest.Wait()
		}
		// Two in flight, one in hand, four in the queue.
		if st := p.Stats(); st.Lost != 3 || st.Queued != 4 || len(s.ids) != 2 {
			t.Errorf("%+v, %d sent", st, len(s.ids))
		}
		stop() // bounded, though nothing is ever answered
	})
}

func TestConfig(t *testing.T) {
	if _, err := events.New(events.Config{}, nil); err == nil {
		t.Error("no gateway, no error")
	}
	if _, err := events.New(events.Config{Gateway: "g", Boot: "b", Queue: -1}, nil); err == nil || errors.Is(err, fault.ErrInternal) {
		t.Error("negative bound, no error")
	}
}
