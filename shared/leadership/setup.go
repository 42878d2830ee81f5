package leadership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
)

// ErrLayout says that the cluster's slot layout is not the configured one, or is not valid.
var ErrLayout = errors.New("slot layout does not match the cluster's")

const (
	firstConfigEpoch = 1
	// layoutRetry is the pause between two attempts while the bucket has no leader.
	layoutRetry = 100 * time.Millisecond
	// leaseMarkerTTL is how long the marker of a lease that ran out stays.
	leaseMarkerTTL = time.Minute
)

// Setup makes the buckets of leadership where they are missing, and agrees on the layout. logical
// is the configured number of logical slots; 0 takes what the cluster has, or the default where it
// has none yet. A cluster with another number gives ErrLayout. replicas is the configured number,
// see natsconn.Replicas. Bounded by ctx.
func Setup(ctx context.Context, js jetstream.JetStream, replicas, logical int) (slot.Layout, error) {
	want := slot.Layout{Logical: logical, ConfigEpoch: firstConfigEpoch}
	if logical == 0 {
		want.Logical = slot.DefaultLogical
	}
	if err := want.Validate(); err != nil {
		return slot.Layout{}, fmt.Errorf("%w: %w", ErrLayout, err)
	}
	replicas = natsconn.Replicas(ctx, js, replicas)
	cluster, err := natsconn.EnsureKV(ctx, js, jetstream.KeyValueConfig{
		Bucket: subject.BucketCluster, Description: "cluster constants", History: 1, Replicas: replicas,
	})
	if err != nil {
		return slot.Layout{}, fmt.Errorf("bucket %s: %w", subject.BucketCluster, err)
	}
	// History 1 in all: with more, an older value reappears when the newest one expires.
	if _, err = natsconn.EnsureKV(ctx, js, jetstream.KeyValueConfig{
		Bucket: subject.BucketSlots, Description: "leader of each logical slot", History: 1, Replicas: replicas,
		RePublish: &jetstream.RePublish{Source: subject.TableSlotsSource, Destination: subject.TableSlotsDestination},
	}); err != nil {
		return slot.Layout{}, fmt.Errorf("bucket %s: %w", subject.BucketSlots, err)
	}
	if _, err = natsconn.EnsureKV(ctx, js, jetstream.KeyValueConfig{
		Bucket: subject.BucketNodes, Description: "node leases", History: 1, Replicas: replicas,
		LimitMarkerTTL: leaseMarkerTTL,
	}); err != nil {
		return slot.Layout{}, fmt.Errorf("bucket %s: %w", subject.BucketNodes, err)
	}
	return agree(ctx, cluster, want, logical)
}

// agree stores the layout if there is none, and else checks it against the configured one.
func agree(ctx context.Context, kv jetstream.KeyValue, want slot.Layout, logical int) (slot.Layout, error) {
	body, err := json.Marshal(want)
	if err != nil {
		return slot.Layout{}, err
	}
	for {
		stored, err := readLayout(ctx, kv)
		switch {
		case err == nil && logical != 0 && stored.Logical != logical:
			return slot.Layout{}, fmt.Errorf("%w: configured %d logical slots, the cluster has %d",
				ErrLayout, logical, stored.Logical)
		case err == nil, errors.Is(err, ErrLayout):
			return stored, err
		case errors.Is(err, jetstream.ErrKeyNotFound):
			// Create decides between several that start at once; the winner's is read back.
			if _, err = kv.Create(ctx, subject.KeyLayout, body); err == nil {
				return want, nil
			}
		}
		select {
		case <-ctx.Done():
			return slot.Layout{}, fmt.Errorf("slot layout: %w", errors.Join(ctx.Err(), err))
		case <-time.After(layoutRetry):
		}
	}
}

func readLayout(ctx context.Context, kv jetstream.KeyValue) (slot.Layout, error) {
	entry, err := kv.Get(ctx, subject.KeyLayout)
	if err != nil {
		return slot.Layout{}, err
	}
	var l slot.Layout
	if err := json.Unmarshal(entry.Value(), &l); err != nil {
		return slot.Layout{}, fmt.Errorf("%w: %w", ErrLayout, err)
	}
	if err := l.Validate(); err != nil {
		return slot.Layout{}, fmt.Errorf("%w: %w", ErrLayout, err)
	}
	return l, nil
}
