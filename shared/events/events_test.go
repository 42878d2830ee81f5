package events_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/events"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/natsconn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stream is a Caller that answers as JetStream would, or as the test says.
type stream struct {
	answer func() (reply string, err error) // nil: stored
	stuck  bool                             // keep what comes, without any answer

	mu    sync.Mutex
	ids   []string // of all publishes
	found map[string]bool
	last  []byte
}

const stored = `{"stream":"SY_EVENTS","seq":1}`

func (s *stream) Call(_ string, data []byte, hdr nats.Header, _ time.Time, cb natsconn.Callback) error {
	s.mu.Lock()
	id := hdr.Get("Nats-Msg-Id")
	s.ids, s.last = append(s.ids, id), data
	s.mu.Unlock()
	reply, err := stored, error(nil)
	switch {
	case s.stuck:
		return nil
	case s.answer != nil:
		reply, err = s.answer()
	}
	if err != nil {
		cb(nil, err)
		return nil
	}
	if reply == stored {
		s.mu.Lock()
		s.found[id] = true
		s.mu.Unlock()
	}
	cb(&nats.Msg{Data: []byte(reply)}, nil)
	return nil
}

func start(t *testing.T, s *stream, cfg events.Config) (*events.Publisher, func()) {
	t.Helper()
	s.found = map[string]bool{}
	p, err := events.New(cfg, s)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	return p, func() { cancel(); <-done }
}

func closed(n uint64) *api.SessionEvent {
	return &api.SessionEvent{
		Type: "session.closed", UID: "eu/main/alice", GatewayID: "g1", BootID: "b1", N: n,
		Code: fault.CloseReplaced, Reason: "elsewhere",
	}
}

func online(n uint64) *api.UserEvent {
	return &api.UserEvent{Type: "user.online", UID: "eu/main/alice", Slot: 22, Term: 3, N: n}
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stream{}
		p, stop := start(t, s, events.Config{})
		p.Publish(online(1))
		p.Publish(closed(2))
		synctest.Wait()
		var e map[string]any
		if err := json.Unmarshal(s.last, &e); err != nil || e["type"] != "session.closed" || e["n"] != 2.0 || e["code"] != 4502.0 ||
			e["reason"] != "elsewhere" || e["gateway_id"] != "g1" || e["boot_id"] != "b1" {
			t.Errorf("%s %v", s.last, err)
		}
		stop()
		if st := p.Stats(); st != (events.Stats{Published: 2}) || fmt.Sprint(s.ids) != "[u.22.3.1 s.b1.2]" {
			t.Errorf("%+v %v", st, s.ids)
		}
		if p.Publish(online(3)); p.Stats().Lost != 1 {
			t.Error("what came after the end is not counted")
		}
	})
}

func TestARepeatHasTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fates := []string{`{"error":{"code":503,"description":"no leader"}}`, `{}`, `nonsense`, stored}
		s := &stream{answer: func() (reply string, err error) {
			reply, fates = fates[0], fates[1:]
			return reply, nil
		}}
		p, stop := start(t, s, events.Config{})
		p.Publish(online(1))
		<-time.After(10 * time.Second) // synthetic
		stop()
		if st := p.Stats(); st != (events.Stats{Published: 1, Retried: 3}) || len(s.ids) != 4 || s.ids[0] != s.ids[3] {
			t.Errorf("%+v %v", st, s.ids)
		}
	})
}

// TestAnElectionLosesNoEvent: the stream has no leader for longer than it ever takes, while more
// happens than can be in flight.
func TestAnElectionLosesNoEvent(t *testing.T) {
	for name, failure := range map[string]error{"refused": natsconn.ErrNoResponders, "lost": fault.ErrTimeout} {
		synctest.Test(t, func(t *testing.T) {
			back := time.Now().Add(20 * time.Second)
			s := &stream{answer: func() (string, error) {
				if time.Now().Before(back) {
					return "", failure
				}
				return stored, nil
			}}
			p, stop := start(t, s, events.Config{})
			const n = 5000
			for i := range uint64(n) {
				p.Publish(online(i))
			}
			<-time.After(30 * time.Second) // synthetic
			if st := p.Stats(); st.Published != n || st.Lost+st.Queued != 0 || len(s.found) != n {
				t.Errorf("%s: %+v, %d different ones stored", name, st, len(s.found))
			}
			stop()
		})
	}
}

// TestAnOldEventIsGivenUp: before the stream forgets its id.
func TestAnOldEventIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last time.Time
		s := &stream{answer: func() (string, error) { last = time.Now(); return "", fault.ErrTimeout }}
		p, stop := start(t, s, events.Config{})
		begin := time.Now()
		p.Publish(online(1))
		<-time.After(5 * time.Minute) // synthetic
		if st := p.Stats(); st.Lost != 1 || st.Published != 0 {
			t.Errorf("%+v", st)
		}
		if d := last.Sub(begin); d < 20*time.Second || d+5*time.Second >= events.Duplicates {
			t.Errorf("tried for %s", d)
		}
		stop()
	})
}

func TestI12_EventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stream{stuck: true}
		p, stop := start(t, s, events.Config{Queue: 4, InFlight: 2})
		for i := range uint64(10) {
			p.Publish(online(i))
			synctest.Wait()
		}
		if st := p.Stats(); st.Lost != 4 || st.Queued != 4 || len(s.ids) != 2 {
			t.Errorf("%+v, %d sent", st, len(s.ids))
		}
		begin := time.Now()
		stop() // bounded, though nothing is ever answered
		if st := p.Stats(); st.Lost != 10 || time.Since(begin) > 3*time.Second {
			t.Errorf("%+v after %s", st, time.Since(begin))
		}
	})
}

// TestTheEndTriesAtOnce: what waits for its next try does not wait longer.
func TestTheEndTriesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 2
		s := &stream{answer: func() (string, error) {
			if failures--; failures >= 0 {
				return "", fault.ErrTimeout
			}
			return stored, nil
		}}
		p, stop := start(t, s, events.Config{Pause: time.Minute})
		p.Publish(online(1))
		synctest.Wait()
		begin := time.Now()
		stop()
		if st := p.Stats(); st.Published != 1 || st.Lost != 0 || time.Since(begin) > time.Second {
			t.Errorf("%+v after %s", st, time.Since(begin))
		}
	})
}

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]events.Config{
		"bound": {Queue: -1}, "duration": {Pause: -1}, "longer than ids are known": {RetryFor: events.Duplicates - time.Second},
	} {
		if _, err := events.New(cfg, nil); !errors.Is(err, events.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
