package leadership

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard-io/switchyard/shared/slot"
)

// ErrLayout says that the cluster's slot layout is not the configured one, or is not valid.
var ErrLayout = errors.New("slot layout does not match the cluster's")

// Setup makes the buckets of leadership where they are missing, and agrees on the layout. logical
// is the configured number of logical slots; 0 takes what the cluster has, or the default where it
// has none yet. A cluster with another number gives ErrLayout. Bounded by ctx.
func Setup(ctx context.Context, js jetstream.JetStream, replicas, logical int) (slot.Layout, error) {
	panic("body follows")
}
