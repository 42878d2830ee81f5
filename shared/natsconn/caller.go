package natsconn

import (
	"time"

	"github.com/nats-io/nats.go"
)

// Callback gets the replies of one call: (reply, nil) for each until it returns done, or once
// (nil, error) when the call ends without: fault.ErrTimeout at the deadline, ErrNoResponders, or
// fault.ErrUnavailable when the Caller closes. It runs on the Caller's goroutine: it must not
// block. After an error its result is ignored.
type Callback func(reply *nats.Msg, err error) (done bool)

// Caller makes asynchronous calls over one inbox.
type Caller struct{}

// NewCaller makes a Caller with at most maxPending calls waiting at a time. It subscribes to its
// inbox; Close it.
func NewCaller(nc *nats.Conn, maxPending int) (*Caller, error) { panic("body follows") }

// Call publishes before it returns, so the order of calls is the order on the wire. hdr may be
// nil, and is not kept. cb is called only when Call returned nil. Errors: fault.ErrQueueFull when maxPending calls
// wait, fault.ErrTimeout when the deadline has passed, fault.ErrUnavailable when closed or not
// connected.
func (c *Caller) Call(subject string, data []byte, hdr nats.Header, deadline time.Time, cb Callback) error {
	panic("body follows")
}

// Pending is the number of calls that wait.
func (c *Caller) Pending() int { panic("body follows") }

// Close ends all waiting calls with fault.ErrUnavailable and returns when no callback runs any more.
func (c *Caller) Close() { panic("body follows") }
