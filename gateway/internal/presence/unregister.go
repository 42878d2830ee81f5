package presence

import (
	"context"
	"sync"
	"time"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// Unregister takes back the routes of a session at or below seq, which must be the sequence of
// its removal from the registry. It only queues: the worker retries until the slot's leader of the
// day has taken the tombstone or has fenced it (I4). fault.ErrQueueFull when UnregisterQueue wait:
// that route ends by its expiry instead.
func (c *Client) Unregister(uid identity.UID, id identity.SessionID, seq uint64) error {
	if !c.removed.push(entry{uid: uid, session: id, seq: seq}) {
		c.counts.unregisterFull.Add(1)
		return fault.ErrQueueFull
	}
	return nil
}

// Unregistering is the number of unregisters that no leader has taken yet.
func (c *Client) Unregistering() int { return c.removed.len() }

// Flush waits until no unregister waits, while Run runs. It returns ctx's error if it ends first.
func (c *Client) Flush(ctx context.Context) error {
	for {
		idle := c.removed.idle()
		if idle == nil {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// runUnregister sends what is queued, in batches by leader, until ctx ends. A leader that does
// not answer delays only its own.
func (c *Client) runUnregister(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	free := make(chan struct{}, c.cfg.MaxInFlight)
	for {
		entries, wait := c.removed.take(time.Now(), c.cfg.BatchSessions*c.cfg.MaxInFlight)
		if len(entries) == 0 {
			if !c.removed.wait(ctx, wait) {
				return
			}
			continue
		}
		batches, lost := c.split(entries)
		c.retryUnregister(lost)
		for _, b := range batches {
			select {
			case free <- struct{}{}:
			case <-ctx.Done():
				return
			}
			wg.Go(func() {
				defer func() { <-free }()
				c.unregisterBatch(ctx, b)
			})
		}
	}
}

func (c *Client) unregisterBatch(ctx context.Context, b *batch) {
	results, err := c.send(ctx, subject.AuthorityUnregister, b)
	if err != nil {
		for _, g := range b.groups {
			c.retryUnregister(g)
		}
		return
	}
	for i, r := range results {
		switch r.Status {
		case wirepb.Status_STATUS_OK:
			c.counts.unregistered.Add(int64(len(b.groups[i])))
			c.removed.done(len(b.groups[i]))
		case wirepb.Status_STATUS_FENCED, wirepb.Status_STATUS_INVALID:
			c.counts.unregisterFenced.Add(int64(len(b.groups[i])))
			c.removed.done(len(b.groups[i]))
		default:
			c.redirected(b.targets[i].Hash, r.Status, r.Current)
			c.retryUnregister(b.groups[i])
		}
	}
}

func (c *Client) retryUnregister(entries []entry) {
	if len(entries) == 0 {
		return
	}
	c.counts.unregisterRetry.Add(int64(len(entries)))
	c.removed.again(entries, time.Now(), c.backoff)
}

// unregisterQueue holds what is to be unregistered. Its bound covers what waits, what waits for
// another try, and what is in flight (I12).
type unregisterQueue struct {
	max  int
	wake chan struct{} // capacity 1

	mu      sync.Mutex
	ready   []entry
	retry   []entry   // all due at retryAt
	retryAt time.Time // zero when retry is empty
	streak  int       // failures in a row, for the back-off
	total   int       // ready + retry + in flight
	empty   chan struct{}
}

func newUnregisterQueue(limit int) *unregisterQueue {
	return &unregisterQueue{max: limit, wake: make(chan struct{}, 1)}
}

func (q *unregisterQueue) push(e entry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.total >= q.max {
		return false
	}
	q.total++
	q.ready = append(q.ready, e)
	q.signal()
	return true
}

func (q *unregisterQueue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take moves up to limit entries into flight; with none it says how long until some are due, 0
// for never.
func (q *unregisterQueue) take(now time.Time, limit int) ([]entry, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.retry) > 0 && !now.Before(q.retryAt) {
		q.ready = append(q.ready, q.retry...)
		q.retry, q.retryAt = nil, time.Time{}
	}
	if len(q.ready) == 0 {
		if len(q.retry) == 0 {
			return nil, 0
		}
		return nil, q.retryAt.Sub(now)
	}
	n := min(limit, len(q.ready))
	out := q.ready[:n:n]
	q.ready = q.ready[n:]
	if len(q.ready) == 0 {
		q.ready = nil // a burst does not pin its memory
	}
	return out, 0
}

// again puts entries back whose try failed.
func (q *unregisterQueue) again(entries []entry, now time.Time, backoff func(int) time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retry = append(q.retry, entries...)
	if q.retryAt.IsZero() {
		q.streak++
		q.retryAt = now.Add(backoff(q.streak))
	}
	q.signal()
}

// done forgets n entries that were in flight.
func (q *unregisterQueue) done(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total -= n
	q.streak = 0
	if q.total == 0 && q.empty != nil {
		close(q.empty)
		q.empty = nil
	}
}

func (q *unregisterQueue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total
}

// idle is closed when the queue empties; nil when it is empty.
func (q *unregisterQueue) idle() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.total == 0 {
		return nil
	}
	if q.empty == nil {
		q.empty = make(chan struct{})
	}
	return q.empty
}

// wait blocks until something may be ready; false when ctx ended.
func (q *unregisterQueue) wait(ctx context.Context, d time.Duration) bool {
	var due <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-q.wake:
	case <-due:
	case <-ctx.Done():
		return false
	}
	return true
}
