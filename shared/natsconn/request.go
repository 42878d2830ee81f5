package natsconn

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/telemetry"
)

// DefaultTimeout is how long Request waits where the context has no deadline.
const DefaultTimeout = 5 * time.Second

// ErrNoResponders says that nobody subscribes to a request's subject: the process meant is gone,
// or has not started. In errors.Is it matches fault.ErrUnavailable too, but another UNAVAILABLE
// does not match it.
var ErrNoResponders error = noResponders{}

// noResponders is its own type because fault.Errors compare by code only.
type noResponders struct{}

var nobody = fault.New(fault.Unavailable, "nobody answers there")

func (noResponders) Error() string        { return nobody.Error() }
func (noResponders) Unwrap() error        { return nobody }
func (noResponders) Is(target error) bool { return target == nats.ErrNoResponders }

// Request sends data and waits for one reply, at most until ctx's deadline or DefaultTimeout when
// it has none. The trace in ctx goes along. Errors: ErrNoResponders, fault.ErrTimeout,
// fault.ErrUnavailable (not connected), or ctx's own when it was cancelled. An error that the
// reply carries is for the caller to look at (fault.FromMsg).
func Request(ctx context.Context, nc *nats.Conn, subject string, data []byte) (*nats.Msg, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultTimeout)
		defer cancel()
	}
	m := &nats.Msg{Subject: subject, Data: data}
	if telemetry.Traced(ctx) {
		m.Header = nats.Header{}
		telemetry.Inject(ctx, m.Header)
	}
	reply, err := nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return nil, mapError(nc, err)
	}
	return reply, nil
}

// mapError says in the suite's words why a message did not get through or was not answered.
func mapError(nc *nats.Conn, err error) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return ErrNoResponders
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, nats.ErrMaxPayload):
		return fault.Wrap(fault.TooLarge, "message too large", err)
	case !nc.IsConnected(), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed),
		errors.Is(err, nats.ErrConnectionReconnecting), errors.Is(err, nats.ErrConnectionDraining), errors.Is(err, nats.ErrDisconnected):
		return fault.Wrap(fault.Unavailable, "messaging is away", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return fault.Wrap(fault.Timeout, "no answer in time", err)
	}
	return fault.Wrap(fault.Internal, "internal error", err)
}
