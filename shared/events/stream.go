package events

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/subject"
)

// Duplicates is how long the stream knows the id of an event.
const Duplicates = 2 * time.Minute

// Stream is the size of the event stream.
type Stream struct {
	// MaxAge is how long events are kept; at least Duplicates.
	MaxAge time.Duration
	// MaxBytes bounds the stream; then the oldest events go.
	MaxBytes int64
	// Replicas of the stream; 0: by the size of the cluster.
	Replicas int
}

// Setup makes the stream where it is missing, and else brings it in line, bounded by ctx.
func Setup(ctx context.Context, js jetstream.JetStream, s Stream) error {
	_, err := natsconn.EnsureStream(ctx, js, jetstream.StreamConfig{
		Name:        subject.StreamEvents,
		Description: "what happens to users and sessions",
		Subjects:    []string{subject.EventsAll},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardOld,
		MaxAge:      s.MaxAge,
		MaxBytes:    s.MaxBytes,
		Duplicates:  Duplicates,
		Replicas:    natsconn.Replicas(ctx, js, s.Replicas),
	})
	return err
}
