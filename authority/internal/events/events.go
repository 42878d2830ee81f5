// Package events publishes what happens to users in the JetStream stream SY_EVENTS
// (PROTOCOL.md section 6), at least once, and without ever holding up the directory.
//
//	User -> queue (bounded) -> asynchronous publish (bounded in flight) -> acknowledgement
//
// A publish that fails is tried again under the same Nats-Msg-Id, so the stream keeps it once. What
// does not fit the queue, or still fails after the last try, is lost to the stream, and counted.
//
// Safe for concurrent use.
package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/subject"
)

// Config of a Publisher. Zero fields take the defaults.
type Config struct {
	// Queue bounds the events that wait. Default 65536.
	Queue int
	// MaxAge is how long the stream keeps events. Default 24 h.
	MaxAge time.Duration
	// MaxBytes bounds the stream. Default 256 MiB.
	MaxBytes int64
	// Replicas of the stream; 0: by the size of the cluster.
	Replicas int
	// Backoff is the pause before the second try; it doubles with each. Default 500 ms, so that six
	// tries outlast a stream without leader (14 s).
	Backoff time.Duration
	// Log gets events that were lost. nil: dropped.
	Log *slog.Logger
}

const (
	// inFlight bounds the events that wait for their acknowledgement or for their next try.
	inFlight = 1024
	// ackWait is how long one acknowledgement may take.
	ackWait = 5 * time.Second
	// tries is how often an event is published at most.
	tries = 6
	// duplicates is the stream's window for Nats-Msg-Id: longer than all tries take.
	duplicates = 2 * time.Minute
)

// Publisher publishes user events between Run and the end of its context.
type Publisher struct {
	cfg    Config
	js     jetstream.JetStream
	queue  chan pending
	flight chan struct{} // one an event between its publish and its end
	ending chan struct{} // closed when Run's context ends: nobody waits for a next try any more

	published, lost, retried atomic.Int64
}

// pending is an event on its way; tried counts its publishes.
type pending struct {
	event directory.Transition
	tried int
}

// New makes a publisher on nc.
func New(cfg Config, nc *nats.Conn) (*Publisher, error) {
	if cfg.Queue <= 0 {
		cfg.Queue = 65536
	}
	if cfg.MaxAge <= 0 {
		cfg.MaxAge = 24 * time.Hour
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = 256 << 20
	}
	if cfg.Backoff <= 0 {
		cfg.Backoff = 500 * time.Millisecond
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(ackWait))
	if err != nil {
		return nil, fmt.Errorf("events: %w", err)
	}
	return &Publisher{cfg: cfg, js: js, queue: make(chan pending, cfg.Queue),
		flight: make(chan struct{}, inFlight), ending: make(chan struct{})}, nil
}

// Setup makes the stream where it is missing, bounded by ctx.
func (p *Publisher) Setup(ctx context.Context) error {
	_, err := natsconn.EnsureStream(ctx, p.js, jetstream.StreamConfig{
		Name:        subject.StreamEvents,
		Description: "what happens to users and sessions",
		Subjects:    []string{subject.EventsAll},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardOld,
		MaxAge:      p.cfg.MaxAge,
		MaxBytes:    p.cfg.MaxBytes,
		Duplicates:  duplicates,
		Replicas:    natsconn.Replicas(ctx, p.js, p.cfg.Replicas),
	})
	return err
}

// User queues the change of a user. It never blocks.
func (p *Publisher) User(t directory.Transition) { p.enqueue(pending{event: t}) }

func (p *Publisher) enqueue(e pending) {
	select {
	case p.queue <- e:
	default:
		p.lost.Add(1)
	}
}

// Run publishes until ctx ends, and then what is still queued, for at most ackWait. Run it once.
func (p *Publisher) Run(ctx context.Context) {
	for {
		select {
		case e := <-p.queue:
			p.publish(e)
		case <-ctx.Done():
			close(p.ending)
			p.flush()
			return
		}
	}
}

// flush publishes the rest and waits for the acknowledgements, bounded.
func (p *Publisher) flush() {
	end := time.NewTimer(ackWait)
	defer end.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for len(p.queue)+len(p.flight) > 0 {
		select {
		case e := <-p.queue:
			p.publish(e)
		case <-poll.C:
		case <-end.C:
			p.lost.Add(int64(len(p.queue)))
			return
		}
	}
}

func (p *Publisher) publish(e pending) {
	p.flight <- struct{}{} // an acknowledgement or its time-out makes room
	e.tried++
	future, err := p.js.PublishMsgAsync(message(e.event))
	go func() {
		defer func() { <-p.flight }()
		if err == nil {
			select {
			case <-future.Ok():
				p.published.Add(1)
				return
			case err = <-future.Err():
			}
		}
		p.again(e, err)
	}()
}

// again queues an event for another try after a pause: behind others, which a reader can tell by
// its n.
func (p *Publisher) again(e pending, err error) {
	if e.tried >= tries || errors.Is(err, nats.ErrConnectionClosed) {
		p.lost.Add(1)
		p.cfg.Log.Warn("user event lost", "slot", e.event.Hash, "error", err)
		return
	}
	pause := time.NewTimer(p.cfg.Backoff << (e.tried - 1))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-p.ending:
	}
	p.retried.Add(1)
	p.enqueue(e)
}

// message is the event's; its id names the change, whoever publishes it.
func message(t directory.Transition) *nats.Msg {
	what := api.WhatOffline
	if t.Online {
		what = api.WhatOnline
	}
	region, realm, _ := t.UID.Split()
	m := nats.NewMsg(subject.Event(api.KindUser, what, region, realm))
	data, err := json.Marshal(api.UserEvent{
		Type: api.EventType(api.KindUser, what), UID: t.UID, At: api.AtMS(t.At), Slot: t.Hash, Term: t.Term, N: t.N,
	})
	if err != nil { // strings and numbers only: cannot fail
		panic(err)
	}
	m.Data = data
	m.Header.Set(subject.HeaderMsgID, "u."+strconv.Itoa(int(t.Hash))+"."+strconv.FormatUint(t.Term, 10)+"."+strconv.FormatUint(t.N, 10))
	return m
}

// Counts reads the counters: events acknowledged, lost, published again, and waiting.
func (p *Publisher) Counts() (published, lost, retried, queued int64) {
	return p.published.Load(), p.lost.Load(), p.retried.Load(), int64(len(p.queue))
}
