package natsconn

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/switchyard-io/switchyard/shared/fault"
)

// ErrNoResponders says that nobody subscribes to a request's subject: the process meant is gone,
// or has not started. It matches fault.ErrUnavailable in errors.Is.
var ErrNoResponders error = fault.Wrap(fault.Unavailable, "nobody answers there", nats.ErrNoResponders)

// Request sends data and waits for one reply, at most until ctx's deadline or 5 s when it has
// none. The trace in ctx goes along. Errors: ErrNoResponders, fault.ErrTimeout,
// fault.ErrUnavailable (not connected), or ctx's own when it was cancelled. An error that the
// reply carries is for the caller to look at (fault.FromMsg).
func Request(ctx context.Context, nc *nats.Conn, subject string, data []byte) (*nats.Msg, error) {
	panic("body follows")
}
