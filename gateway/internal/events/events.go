package events

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/gateway/internal/session"
	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/subject"
)

// Caller sends a request and hands its reply to cb; a *natsconn.Caller is one.
type Caller interface {
	Call(subject string, data []byte, hdr nats.Header, deadline time.Time, cb natsconn.Callback) error
}

// Config of a Publisher. Zero numbers and durations take the defaults.
type Config struct {
	Gateway, Boot string        // this life of this gateway; required
	Queue         int           // events that wait; default 65536
	InFlight      int           // publishes that wait for their acknowledgement; default 1024
	AckWait       time.Duration // of one publish; default 5 s
	Pause         time.Duration // before a publish is repeated; default 1 s
	Tries         int           // publishes of one event; default 6
}

// flushWait bounds what the end of a gateway waits for its last events.
const flushWait = 2 * time.Second

func (c *Config) defaults() error {
	if c.Gateway == "" || c.Boot == "" {
		return errors.New("events: gateway and boot id are required")
	}
	if min(c.Queue, c.InFlight, c.Tries) < 0 || min(c.AckWait, c.Pause) < 0 {
		return errors.New("events: a bound is negative")
	}
	for p, n := range map[*int]int{&c.Queue: 1 << 16, &c.InFlight: 1024, &c.Tries: 6} {
		if *p == 0 {
			*p = n
		}
	}
	for p, d := range map[*time.Duration]time.Duration{&c.AckWait: 5 * time.Second, &c.Pause: time.Second} {
		if *p == 0 {
			*p = d
		}
	}
	return nil
}

// Publisher is a session.Observer. Events are published while Run runs.
type Publisher struct {
	cfg    Config
	caller Caller
	queue  chan *event   // pointers: the room of an idle queue costs little
	flight chan struct{} // a token for each event between its first publish and its end

	n                        atomic.Uint64
	ended                    atomic.Bool // Run is over: nothing is repeated any more
	published, lost, retried atomic.Int64
}

var _ session.Observer = (*Publisher)(nil)

type event struct {
	uid     identity.UID
	session identity.SessionID
	at      time.Time
	n       uint64
	what    string
	code    fault.CloseCode
	reason  string
}

// New makes a publisher.
func New(cfg Config, caller Caller) (*Publisher, error) {
	if err := cfg.defaults(); err != nil {
		return nil, err
	}
	return &Publisher{
		cfg: cfg, caller: caller,
		queue: make(chan *event, cfg.Queue), flight: make(chan struct{}, cfg.InFlight),
	}, nil
}

// Authenticated queues that a session began. It never blocks.
func (p *Publisher) Authenticated(s *session.Session) {
	p.enqueue(s, &event{what: api.WhatAuthenticated})
}

// Closed queues that an authenticated session ended. It never blocks.
func (p *Publisher) Closed(s *session.Session, code fault.CloseCode, reason string) {
	p.enqueue(s, &event{what: api.WhatClosed, code: code, reason: reason})
}

func (p *Publisher) enqueue(s *session.Session, e *event) {
	e.uid, e.session, e.at, e.n = s.UID(), s.ID(), time.Now(), p.n.Add(1)
	select {
	case p.queue <- e:
	default:
		p.lost.Add(1)
	}
}

// Run publishes until ctx ends, then what is still queued, for at most flushWait.
func (p *Publisher) Run(ctx context.Context) {
	for {
		select {
		case e := <-p.queue:
			select {
			case p.flight <- struct{}{}:
				p.publish(e, 1)
			case <-ctx.Done():
				p.lost.Add(1)
			}
		case <-ctx.Done():
			p.flush()
			p.ended.Store(true)
			return
		}
	}
}

// flush publishes the rest, and waits until nothing is in flight.
func (p *Publisher) flush() {
	end := time.NewTimer(flushWait)
	defer end.Stop()
	for {
		select {
		case e := <-p.queue:
			select {
			case p.flight <- struct{}{}:
				p.publish(e, 1)
				continue
			case <-end.C:
			}
			p.lost.Add(1 + int64(len(p.queue)))
			return
		default:
		}
		break
	}
	for range cap(p.flight) { // with all tokens in hand nobody else has one
		select {
		case p.flight <- struct{}{}:
		case <-end.C:
			return
		}
	}
}

// publish sends an event whose token is taken, and gives the token back when its fate is known.
func (p *Publisher) publish(e *event, try int) {
	region, realm, _ := e.uid.Split()
	hdr := nats.Header{}
	hdr.Set(subject.HeaderMsgID, "s."+p.cfg.Boot+"."+strconv.FormatUint(e.n, 10))
	err := p.caller.Call(subject.Event(api.KindSession, e.what, region, realm), p.body(e), hdr, time.Now().Add(p.cfg.AckWait),
		func(m *nats.Msg, err error) bool {
			if err == nil {
				err = refusal(m)
			}
			p.done(e, try, err)
			return true
		})
	if err != nil {
		p.done(e, try, err)
	}
}

func (p *Publisher) done(e *event, try int, err error) {
	switch {
	case err == nil:
		p.published.Add(1)
	case try < p.cfg.Tries && !p.ended.Load():
		p.retried.Add(1)
		time.AfterFunc(p.cfg.Pause, func() { p.publish(e, try+1) })
		return
	default:
		p.lost.Add(1)
	}
	<-p.flight
}

// refusal is the error in JetStream's acknowledgement, if it is one.
func refusal(m *nats.Msg) error {
	var ack struct {
		Stream string `json:"stream"`
	}
	if err := json.Unmarshal(m.Data, &ack); err != nil || ack.Stream == "" {
		return errors.New("events: not stored")
	}
	return nil
}

func (p *Publisher) body(e *event) []byte {
	data, err := json.Marshal(api.SessionEvent{
		Type: api.EventType(api.KindSession, e.what), UID: e.uid, At: api.At(e.at), SessionID: e.session,
		GatewayID: p.cfg.Gateway, BootID: p.cfg.Boot, N: e.n, Code: e.code, Reason: e.reason,
	})
	if err != nil { // strings and numbers only: cannot fail
		panic(err)
	}
	return data
}

// Stats counts since the Publisher was made; Queued is the number now.
type Stats struct{ Published, Lost, Retried, Queued int64 }

// Stats is a snapshot of the counters.
func (p *Publisher) Stats() Stats {
	return Stats{p.published.Load(), p.lost.Load(), p.retried.Load(), int64(len(p.queue))}
}
