package natsconn_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
)

func js(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	j, err := natsconn.JetStream(natstest.Conn(t, url))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func replicasOf(t *testing.T, j jetstream.JetStream, stream string) int {
	t.Helper()
	s, err := j.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().Config.Replicas
}

func TestEnsureOnASingleServer(t *testing.T) {
	j := js(t, natstest.Server(t).URL())
	if n := natsconn.Replicas(t.Context(), j, 0); n != 1 {
		t.Fatalf("%d replicas on one server", n)
	}
	if n := natsconn.Replicas(t.Context(), j, 5); n != 5 {
		t.Fatalf("%d replicas where 5 are configured", n)
	}
	cfg := jetstream.KeyValueConfig{Bucket: "B", TTL: time.Minute, LimitMarkerTTL: time.Second}
	kv, err := natsconn.EnsureKV(t.Context(), j, cfg)
	if err != nil {
		t.Fatal(err)
	}
	rev, err := kv.Put(t.Context(), "k", []byte("v"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.TTL = 2 * time.Minute
	kv, err = natsconn.EnsureKV(t.Context(), j, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := kv.Get(t.Context(), "k"); err != nil || e.Revision() != rev {
		t.Fatalf("after the second: %v %v", e, err)
	}
	if st, err := kv.Status(t.Context()); err != nil || st.TTL() != 2*time.Minute {
		t.Fatalf("TTL not brought in line: %v %v", st, err)
	}
	// What can never work fails at once, not at the deadline.
	start := time.Now()
	if _, err := natsconn.EnsureKV(t.Context(), j, jetstream.KeyValueConfig{Bucket: "R3", Replicas: 3}); err == nil || time.Since(start) > 5*time.Second {
		t.Fatalf("three replicas on one server: %v after %v", err, time.Since(start))
	}
}

func TestEnsureFromSeveralAtOnce(t *testing.T) {
	j := js(t, natstest.Server(t).URL())
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := natsconn.EnsureKV(t.Context(), j, jetstream.KeyValueConfig{Bucket: "SAME"}); err != nil {
				t.Error(err)
			}
			if _, err := natsconn.EnsureStream(t.Context(), j, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, MaxAge: time.Hour}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestEnsureOnACluster(t *testing.T) {
	cluster := natstest.Cluster(t, 3)
	j := js(t, cluster.URL())
	if n := natsconn.Replicas(t.Context(), j, 0); n != 3 {
		t.Fatalf("%d replicas on three servers", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := natsconn.EnsureKV(ctx, j, jetstream.KeyValueConfig{Bucket: "B", Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	// A node that believes in fewer servers takes no replica away.
	if _, err := natsconn.EnsureKV(ctx, j, jetstream.KeyValueConfig{Bucket: "B", Replicas: 1, Description: "changed"}); err != nil {
		t.Fatal(err)
	}
	if n := replicasOf(t, j, "KV_B"); n != 3 {
		t.Fatalf("%d replicas left", n)
	}
	// Right after the leader is lost it waits until there is another.
	cluster.Stop(cluster.Leader())
	if _, err := natsconn.EnsureStream(ctx, j, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Replicas: 1}); err != nil {
		t.Fatal(err)
	}
}
