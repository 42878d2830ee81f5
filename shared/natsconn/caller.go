package natsconn

import (
	"container/heap"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/fault"
)

// Callback gets the replies of one call: (reply, nil) for each until it returns done, or once
// (nil, error) when the call ends without: fault.ErrTimeout at the deadline (fault.ErrUnavailable
// when the connection is away then), ErrNoResponders, or fault.ErrUnavailable when the Caller
// closes. The callbacks of one Caller never overlap; a callback must not block and must not close
// its Caller, but may call Call. After an error its result is ignored.
type Callback func(reply *nats.Msg, err error) (done bool)

// Caller makes asynchronous calls over one inbox. Replies run on the subscription's goroutine,
// deadlines on one more, whatever the number of calls.
//
// Lock order: run before mu; mu is never held during a callback.
type Caller struct {
	nc     *nats.Conn
	max    int
	prefix string // of the inbox, with the trailing dot
	sub    *nats.Subscription
	wake   chan struct{} // an earlier deadline than the armed one came in, or closed
	done   chan struct{} // the deadline goroutine has ended

	run sync.Mutex // held around every callback

	mu      sync.Mutex
	closed  bool
	lastID  uint64
	calls   map[uint64]*call
	expiry  deadlines
	armedAt time.Time // when the deadline goroutine wakes next; zero: not before it is woken
}

type call struct {
	id       uint64
	deadline time.Time
	cb       Callback
	index    int  // in expiry
	ended    bool // its callback is done; guarded by Caller.run
}

var errClosed = fault.New(fault.Unavailable, "shutting down")

// NewCaller makes a Caller with at most maxPending calls waiting at a time. It subscribes to its
// inbox and starts its goroutine; Close it.
func NewCaller(nc *nats.Conn, maxPending int) (*Caller, error) {
	if maxPending < 1 {
		return nil, fmt.Errorf("caller: at most %d calls make no sense", maxPending)
	}
	c := &Caller{nc: nc, max: maxPending, prefix: nc.NewInbox() + ".", wake: make(chan struct{}, 1),
		done: make(chan struct{}), calls: make(map[uint64]*call)}
	var err error
	if c.sub, err = nc.Subscribe(c.prefix+"*", c.reply); err != nil {
		return nil, fmt.Errorf("caller inbox: %w", err)
	}
	go c.expire()
	return c, nil
}

// Call publishes before it returns, so the order of calls is the order on the wire. hdr may be
// nil, and is not kept. cb is called only when Call returned nil, perhaps before it returns.
// Errors: fault.ErrQueueFull when maxPending calls wait, fault.ErrTimeout when the deadline has
// passed, fault.ErrTooLarge, fault.ErrUnavailable when closed or not connected.
func (c *Caller) Call(subject string, data []byte, hdr nats.Header, deadline time.Time, cb Callback) error {
	k := &call{deadline: deadline, cb: cb}
	if err := c.add(k); err != nil {
		return err
	}
	err := c.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: c.prefix + strconv.FormatUint(k.id, 36), Data: data, Header: hdr})
	if err == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.removeLocked(k) { // ended by its deadline or by Close meanwhile: the callback has the error
		return nil
	}
	return mapError(c.nc, err)
}

func (c *Caller) add(k *call) error {
	if !time.Now().Before(k.deadline) {
		return fault.ErrTimeout
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	if len(c.calls) >= c.max {
		return fault.ErrQueueFull
	}
	c.lastID++
	k.id = c.lastID
	c.calls[k.id] = k
	heap.Push(&c.expiry, k)
	if c.armedAt.IsZero() || k.deadline.Before(c.armedAt) {
		c.armedAt = k.deadline
		c.wakeLocked()
	}
	return nil
}

func (c *Caller) wakeLocked() {
	select {
	case c.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// removeLocked reports whether the call was still waiting.
func (c *Caller) removeLocked(k *call) bool {
	if c.calls[k.id] != k {
		return false
	}
	delete(c.calls, k.id)
	heap.Remove(&c.expiry, k.index)
	return true
}

// reply handles a message to the inbox.
func (c *Caller) reply(m *nats.Msg) {
	id, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, c.prefix), 36, 64)
	if err != nil {
		return // not ours: nobody else knows the inbox
	}
	c.run.Lock()
	defer c.run.Unlock()
	c.mu.Lock()
	k := c.calls[id]
	none := k != nil && len(m.Data) == 0 && m.Header.Get("Status") == "503"
	if none {
		c.removeLocked(k)
	}
	c.mu.Unlock()
	switch {
	case k == nil: // late
	case none:
		k.cb(nil, ErrNoResponders)
	case k.cb(m, nil):
		k.ended = true // Close may have taken it already
		c.mu.Lock()
		c.removeLocked(k)
		c.mu.Unlock()
	}
}

// expire ends calls whose deadline has passed. It sleeps until the earliest deadline that it was
// told of, so a call that is answered in time costs it nothing.
func (c *Caller) expire() {
	defer close(c.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-c.wake:
		case <-timer.C:
		}
		now := time.Now()
		for k := c.nextDue(now); k != nil; k = c.nextDue(now) {
			c.run.Lock()
			if c.take(k) {
				k.cb(nil, c.lateError())
			}
			c.run.Unlock()
		}
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return
		}
		c.armedAt = time.Time{}
		if len(c.expiry) > 0 {
			c.armedAt = c.expiry[0].deadline
			timer.Reset(time.Until(c.armedAt))
		}
		c.mu.Unlock()
	}
}

func (c *Caller) lateError() error {
	if !c.nc.IsConnected() {
		return fault.ErrUnavailable
	}
	return fault.ErrTimeout
}

func (c *Caller) nextDue(now time.Time) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.expiry) == 0 || c.expiry[0].deadline.After(now) {
		return nil
	}
	return c.expiry[0]
}

func (c *Caller) take(k *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.removeLocked(k)
}

// Pending is the number of calls that wait.
func (c *Caller) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls)
}

// Close ends all waiting calls with fault.ErrUnavailable and returns when no callback runs any
// more. Further calls do nothing.
func (c *Caller) Close() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		<-c.done
		return
	}
	c.closed = true
	waiting := c.calls
	c.calls, c.expiry = nil, nil
	c.wakeLocked()
	c.mu.Unlock()
	_ = c.sub.Unsubscribe() // fails on a closed connection, which delivers nothing either
	c.run.Lock()
	for _, k := range waiting {
		if !k.ended {
			k.cb(nil, errClosed)
		}
	}
	c.run.Unlock()
	<-c.done
}

// deadlines is a heap of calls, the earliest deadline first.
type deadlines []*call

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].deadline.Before(d[j].deadline) }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

func (d *deadlines) Push(x any) {
	k := x.(*call)
	k.index = len(*d)
	*d = append(*d, k)
}

func (d *deadlines) Pop() any {
	old := *d
	k := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	return k
}
