package natsconn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"reflect"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// EnsureTimeout bounds EnsureKV and EnsureStream where the context has no deadline. It
	// outlives the loss of a JetStream leader (14 s at most).
	EnsureTimeout = 20 * time.Second

	attemptTimeout = 3 * time.Second
	retryPause     = 200 * time.Millisecond // plus as much jitter

	// clusterSize is the number of servers from which on data is replicated, and replicas how often.
	clusterSize = 3
	replicas    = 3
	// gossipWait is how long a server of a cluster may take to tell of its peers.
	gossipWait = time.Second
)

// Codes of JetStream's API that mean "not yet".
const (
	codeNoPeers jetstream.ErrorCode = 10005 // no suitable peers for placement
	statusAway  int                 = 503   // no leader, insufficient resources
)

// JetStream returns the JetStream client of a connection.
func JetStream(nc *nats.Conn) (jetstream.JetStream, error) { return jetstream.New(nc) }

// Replicas says how many replicas a bucket or stream should have: the configured number, or for 0
// 3 where the NATS cluster has three servers or more, else 1. A server that is alone answers at
// once; in a cluster it waits up to 1 s for the servers to tell of each other.
func Replicas(ctx context.Context, js jetstream.JetStream, configured int) int {
	if configured > 0 {
		return configured
	}
	nc := js.Conn()
	if nc.ConnectedClusterName() == "" {
		return 1
	}
	ctx, cancel := context.WithTimeout(ctx, gossipWait)
	defer cancel()
	for {
		if knownServers(ctx, nc) >= clusterSize {
			return replicas
		}
		if pause(ctx, retryPause) != nil {
			return 1
		}
	}
}

// knownServers counts the addresses that the connection knows, configured or told by the servers,
// names resolved so that one server does not count twice.
func knownServers(ctx context.Context, nc *nats.Conn) int {
	seen := make(map[string]bool)
	for _, s := range nc.Servers() {
		u, err := url.Parse(s)
		if err != nil {
			continue
		}
		addrs, err := net.DefaultResolver.LookupHost(ctx, u.Hostname())
		if err != nil {
			continue // a name that does not resolve is no server to place data on
		}
		for _, a := range addrs {
			if ip := net.ParseIP(a); ip != nil && ip.Equal(net.IPv6loopback) {
				a = "127.0.0.1"
			}
			seen[net.JoinHostPort(a, u.Port())] = true
		}
	}
	return len(seen)
}

// EnsureKV makes the bucket if it is not there, and else brings it in line with cfg, but never to
// fewer replicas than it has: a node that starts while servers are missing must not take safety
// away. It retries while JetStream has no leader, until ctx ends (EnsureTimeout when it has no deadline).
func EnsureKV(ctx context.Context, js jetstream.JetStream, cfg jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	if cfg.Replicas == 0 {
		cfg.Replicas = 1
	}
	return ensure(ctx, "bucket "+cfg.Bucket, func(ctx context.Context) (jetstream.KeyValue, error) {
		kv, err := js.KeyValue(ctx, cfg.Bucket)
		if errors.Is(err, jetstream.ErrBucketNotFound) {
			return js.CreateKeyValue(ctx, cfg)
		}
		if err != nil {
			return nil, err
		}
		status, err := kv.Status(ctx)
		if err != nil {
			return nil, err
		}
		have, want := status.Config(), cfg
		want.Replicas = max(have.Replicas, want.Replicas)
		if sameBucket(have, want) {
			return kv, nil
		}
		return js.UpdateKeyValue(ctx, want)
	})
}

// sameBucket compares what this suite sets; the server fills in other fields by itself.
func sameBucket(have, want jetstream.KeyValueConfig) bool {
	return have.Description == want.Description && have.History == max(want.History, 1) && have.TTL == want.TTL &&
		have.Replicas == want.Replicas && have.Storage == want.Storage && have.LimitMarkerTTL == want.LimitMarkerTTL &&
		(want.MaxBytes == 0 || have.MaxBytes == want.MaxBytes) &&
		(want.MaxValueSize == 0 || have.MaxValueSize == want.MaxValueSize) &&
		reflect.DeepEqual(have.RePublish, want.RePublish)
}

// EnsureStream is EnsureKV for a stream.
func EnsureStream(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	if cfg.Replicas == 0 {
		cfg.Replicas = 1
	}
	return ensure(ctx, "stream "+cfg.Name, func(ctx context.Context) (jetstream.Stream, error) {
		s, err := js.Stream(ctx, cfg.Name)
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, err
		}
		want := cfg
		if err == nil {
			want.Replicas = max(s.CachedInfo().Config.Replicas, want.Replicas)
		}
		return js.CreateOrUpdateStream(ctx, want)
	})
}

// ensure tries until it works, fails for good, or ctx ends.
func ensure[T any](ctx context.Context, what string, try func(context.Context) (T, error)) (T, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, EnsureTimeout)
		defer cancel()
	}
	for {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		v, err := try(attempt)
		cancel()
		if err == nil {
			return v, nil
		}
		if !passing(err) || pause(ctx, retryPause) != nil {
			var zero T
			return zero, fmt.Errorf("jetstream %s: %w", what, err)
		}
	}
}

// passing reports whether the same request may succeed in a moment.
func passing(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == statusAway || api.ErrorCode == codeNoPeers
	}
	for _, p := range []error{
		context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, jetstream.ErrNoStreamResponse,
		jetstream.ErrJetStreamNotEnabled, jetstream.ErrBucketExists, // somebody else was faster: look again
		nats.ErrDisconnected, nats.ErrReconnectBufExceeded, nats.ErrConnectionReconnecting,
	} {
		if errors.Is(err, p) {
			return true
		}
	}
	return false
}

// pause waits d plus up to as much again, or returns ctx's error.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d + rand.N(d))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
