package natsconn

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// JetStream returns the JetStream client of a connection.
func JetStream(nc *nats.Conn) (jetstream.JetStream, error) { return jetstream.New(nc) }

// Replicas says how many replicas a bucket or stream should have: the configured number, or for 0
// 3 where the NATS cluster has three servers or more, else 1.
func Replicas(ctx context.Context, js jetstream.JetStream, configured int) int {
	panic("body follows")
}

// EnsureKV makes the bucket if it is not there, and else brings it in line with cfg, but never to
// fewer replicas than it has. It retries while JetStream has no leader, until ctx ends (10 s when
// it has no deadline).
func EnsureKV(ctx context.Context, js jetstream.JetStream, cfg jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	panic("body follows")
}

// EnsureStream is EnsureKV for a stream.
func EnsureStream(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	panic("body follows")
}
