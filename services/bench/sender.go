package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/fault"
)

const replyWait = 15 * time.Second // for the replies that are open when the sending ends

// sender plays a backend: it sends requests as they become due and counts what the replies say.
type sender struct {
	nc      *nats.Conn
	inbox   string
	slots   chan struct{} // requests in flight
	replied atomic.Int64
	faults  atomic.Int64
	reached atomic.Int64 // sessions that replies report as delivered
	missed  atomic.Int64 // users that replies report as offline, unknown or failed
	reply   *recorder    // due to reply
}

// newSender subscribes to the replies. The last token of a reply's subject is the instant at which
// its request was due, so that nothing needs to be remembered for it.
func newSender(nc *nats.Conn, inFlight int) (*sender, *nats.Subscription, error) {
	s := &sender{nc: nc, inbox: nc.NewInbox(), slots: make(chan struct{}, inFlight), reply: newRecorder()}
	sub, err := nc.Subscribe(s.inbox+".*", s.receive)
	if err != nil {
		return nil, nil, fmt.Errorf("bench: %w", err)
	}
	return s, sub, sub.SetPendingLimits(-1, -1)
}

func (s *sender) receive(m *nats.Msg) {
	s.replied.Add(1)
	if at, err := strconv.ParseInt(m.Subject[len(s.inbox)+1:], 10, 64); err == nil {
		s.reply.record(time.Since(time.Unix(0, at)))
	}
	if e := fault.FromMsg(m); e != nil || len(m.Data) == 0 {
		s.faults.Add(1)
	} else {
		var r struct {
			Delivered int64             `json:"delivered"`
			Offline   []string          `json:"offline"`
			Unknown   []string          `json:"unknown"`
			Errors    []json.RawMessage `json:"errors"`
		}
		if json.Unmarshal(m.Data, &r) != nil {
			s.faults.Add(1)
		}
		s.reached.Add(r.Delivered)
		s.missed.Add(int64(len(r.Offline) + len(r.Unknown) + len(r.Errors)))
	}
	select {
	case <-s.slots:
	default: // a late reply of a request that was given up
	}
}

// run sends for the duration: at rate requests a second from their due instants (open loop), or,
// with rate 0, whenever one of the in-flight places is free. It returns how many it sent.
func (s *sender) run(ctx context.Context, o Options, build func(i int, due time.Time) (subject string, data []byte)) (int, time.Duration, error) {
	start := time.Now()
	sent := 0
	for {
		at := time.Now()
		if o.Rate > 0 {
			at = start.Add(time.Duration(sent) * time.Second / time.Duration(o.Rate))
			if wait := time.Until(at); wait > 0 {
				if err := sleep(ctx, wait); err != nil {
					return sent, time.Since(start), err
				}
			}
		}
		if at.Sub(start) >= o.Duration {
			break
		}
		if err := ctx.Err(); err != nil {
			return sent, time.Since(start), err
		}
		select {
		case s.slots <- struct{}{}:
		case <-time.After(replyWait):
			return sent, time.Since(start), fmt.Errorf("bench: no reply for %s with %d requests open", replyWait, len(s.slots))
		}
		subj, data := build(sent, at)
		if err := s.nc.PublishMsg(&nats.Msg{Subject: subj, Reply: s.inbox + "." + strconv.FormatInt(at.UnixNano(), 10), Data: data}); err != nil {
			return sent, time.Since(start), fmt.Errorf("bench: %w", err)
		}
		sent++
	}
	took := time.Since(start)
	if err := s.nc.FlushTimeout(replyWait); err != nil {
		return sent, took, fmt.Errorf("bench: %w", err)
	}
	for end := time.Now().Add(replyWait); s.replied.Load() < int64(sent) && time.Now().Before(end); {
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return sent, took, err
		}
	}
	return sent, took, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
