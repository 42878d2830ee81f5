package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/subject"
)

// Event is one that PROTOCOL.md names: *api.UserEvent or *api.SessionEvent. It is not changed after
// it was given to a Publisher.
type Event interface {
	Subject() string   // where it is published
	MessageID() string // the same for each try, and no other event's
}

// Caller sends a request and hands its reply to cb; a *natsconn.Caller is one. It must outlive Run.
type Caller interface {
	Call(subject string, data []byte, hdr nats.Header, deadline time.Time, cb natsconn.Callback) error
}

// Config of a Publisher. Zero fields take the defaults.
type Config struct {
	// Queue bounds the events that wait. Default 65536.
	Queue int
	// InFlight bounds the events that were published and wait for their acknowledgement, or for
	// their next try. Default 1024.
	InFlight int
	// AckWait is how long one acknowledgement may take. Default 5 s.
	AckWait time.Duration
	// Pause before an event is published again. Default 1 s.
	Pause time.Duration
	// RetryFor is how long after its first try an event is still published again: more than the 14 s
	// for which a stream may have no leader, and less than Duplicates with AckWait. Default 90 s.
	RetryFor time.Duration
	// FlushWait bounds the wait for the last events at the end of Run. Default 3 s.
	FlushWait time.Duration
	// Log gets events that were lost, now and then. nil: dropped.
	Log *slog.Logger
}

// ErrConfig is wrapped by what New refuses.
var ErrConfig = errors.New("events configuration")

const (
	// flushPause is Pause while Run ends.
	flushPause = 100 * time.Millisecond
	// logEvery is the shortest time between two records of lost events.
	logEvery = 10 * time.Second
)

func (c *Config) defaults() error {
	for p, n := range map[*int]int{&c.Queue: 1 << 16, &c.InFlight: 1024} {
		if *p < 0 {
			return fmt.Errorf("%w: a bound is negative", ErrConfig)
		}
		if *p == 0 {
			*p = n
		}
	}
	for p, d := range map[*time.Duration]time.Duration{
		&c.AckWait: 5 * time.Second, &c.Pause: time.Second, &c.RetryFor: 90 * time.Second, &c.FlushWait: 3 * time.Second,
	} {
		if *p < 0 {
			return fmt.Errorf("%w: a duration is negative", ErrConfig)
		}
		if *p == 0 {
			*p = d
		}
	}
	if c.RetryFor+c.AckWait >= Duplicates {
		return fmt.Errorf("%w: an event retried for %s could be stored twice", ErrConfig, c.RetryFor)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Publisher publishes events while Run runs.
type Publisher struct {
	cfg     Config
	caller  Caller
	queue   chan Event
	results chan result // of publishes; at most InFlight are open, so none blocks

	ended                    atomic.Bool // Run is over
	published, lost, retried atomic.Int64
}

// trial is an event between its first publish and its end.
type trial struct {
	event Event
	data  []byte
	first time.Time // publish
	due   time.Time // next publish
}

type result struct {
	trial *trial
	err   error
}

// New makes a Publisher. It starts nothing.
func New(cfg Config, caller Caller) (*Publisher, error) {
	if err := cfg.defaults(); err != nil {
		return nil, err
	}
	return &Publisher{
		cfg: cfg, caller: caller, queue: make(chan Event, cfg.Queue), results: make(chan result, cfg.InFlight),
	}, nil
}

// Publish queues an event. It never blocks: what does not fit is lost, and counted.
func (p *Publisher) Publish(e Event) {
	if p.ended.Load() {
		p.lost.Add(1)
		return
	}
	select {
	case p.queue <- e:
	default:
		p.lost.Add(1)
	}
}

// Run publishes until ctx ends, and then what is left, for at most FlushWait. Run it once.
func (p *Publisher) Run(ctx context.Context) {
	r := run{Publisher: p, pause: p.cfg.Pause}
	r.loop(ctx.Done(), nil)
	r.pause = flushPause
	for _, t := range r.waiting {
		t.due = time.Now()
	}
	end := time.NewTimer(p.cfg.FlushWait)
	defer end.Stop()
	r.loop(nil, end.C)
	p.ended.Store(true)
	if left := len(p.queue) + r.open(); left > 0 {
		p.lost.Add(int64(left))
		p.cfg.Log.Warn("events lost at the end", "events", left)
	}
}

// send publishes a trial and has its result come in, from wherever.
func (p *Publisher) send(t *trial) {
	hdr := nats.Header{}
	hdr.Set(subject.HeaderMsgID, t.event.MessageID())
	err := p.caller.Call(t.event.Subject(), t.data, hdr, time.Now().Add(p.cfg.AckWait), func(m *nats.Msg, err error) bool {
		if err == nil {
			err = refusal(m)
		}
		p.results <- result{t, err}
		return true
	})
	if err != nil {
		p.results <- result{t, err}
	}
}

// refusal is the error in JetStream's acknowledgement, if it is one.
func refusal(m *nats.Msg) error {
	var ack struct {
		Stream string `json:"stream"`
		Error  *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	switch err := json.Unmarshal(m.Data, &ack); {
	case err != nil:
		return fmt.Errorf("acknowledgement: %w", err)
	case ack.Error != nil:
		return errors.New(ack.Error.Description)
	case ack.Stream == "":
		return errors.New("acknowledgement without a stream")
	}
	return nil
}

// Stats counts since the Publisher was made; Queued is the number now.
type Stats struct{ Published, Lost, Retried, Queued int64 }

// Stats is a snapshot of the counters: events acknowledged, lost, published again, and waiting.
func (p *Publisher) Stats() Stats {
	return Stats{p.published.Load(), p.lost.Load(), p.retried.Load(), int64(len(p.queue))}
}
