package leadership

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
)

// leaderOf is the index of the server that leads a bucket's stream, or -1.
func leaderOf(t *testing.T, url, bucket string) int {
	t.Helper()
	js, err := natsconn.JetStream(natstest.Conn(t, url))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), subject.KVStream(bucket))
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.Config.Replicas != 3 {
		t.Fatalf("%s has %d replicas, want 3", bucket, info.Config.Replicas)
	}
	n, err := strconv.Atoi(strings.TrimPrefix(info.Cluster.Leader, "server-"))
	if err != nil {
		return -1
	}
	return n - 1
}

// keepsLeaders runs f and fails if any slot changed its leader or its term meanwhile.
func keepsLeaders(t *testing.T, members []*member, f func()) {
	t.Helper()
	before := members[0].table.Snapshot()
	losses := 0
	for _, m := range members {
		losses += m.losses()
	}
	f()
	after := members[0].table.Snapshot()
	for id := range slot.ID(logical) {
		if b, a := before.Entry(id), after.Entry(id); !a.sameLeadership(b) {
			t.Errorf("slot %d went from %v at term %d to %v at term %d", id, b.Leader, b.Term, a.Leader, a.Term)
		}
	}
	for _, m := range members {
		losses -= m.losses()
	}
	if losses != 0 {
		t.Errorf("%d slots lost", -losses)
	}
}

// One server of three is lost, the leader of the bucket, and every member that was connected to it
// reconnects: no slot changes its leader. Then the same with the quorum lost for a while: writes
// are refused for longer than a stream needs to elect a leader, and the lease outlives it.
func TestLostServersCostNoSlotItsLeader(t *testing.T) {
	c := natstest.Cluster(t, 3)
	w := newWorld(t, c.URL(), logical)
	members := []*member{w.start("a"), w.start("b"), w.start("c")}
	w.balanced(30*time.Second, members...)

	i := leaderOf(t, c.URL(), subject.BucketSlots)
	if i < 0 {
		t.Fatal("the slot bucket has no leader")
	}
	keepsLeaders(t, members, func() {
		begin := time.Now()
		c.Stop(i)
		for _, m := range members { // each has found the bucket's new leader
			old := m.engine.lease.deadline.Load()
			natstest.Eventually(t, 20*time.Second, "the lease is renewed", func() bool {
				return m.engine.lease.deadline.Load() > old+int64(m.engine.cfg.RenewEvery/2)
			})
		}
		w.balanced(20*time.Second, members...)
		t.Logf("all served %s after a server was lost", time.Since(begin))
		c.Restart(i)
		c.AwaitLeader()
	})
	for _, m := range members { // a full lease ahead of the outage
		natstest.Eventually(t, 20*time.Second, "leases are fresh", func() bool {
			return m.engine.lease.remaining() > 12*time.Second
		})
	}
	keepsLeaders(t, members, func() {
		begin := time.Now()
		j, k := (i+1)%3, (i+2)%3
		c.Stop(j)
		c.Stop(k)
		natstest.Eventually(t, 20*time.Second, "a renewal is overdue", func() bool {
			return members[0].engine.lease.remaining() < 8*time.Second
		})
		c.Restart(j)
		c.Restart(k)
		c.AwaitLeader()
		w.balanced(30*time.Second, members...)
		t.Logf("all served %s after the quorum was lost", time.Since(begin))
	})
}

// A crash on a cluster: takeover at its usual pace, and every table agrees.
func TestTakeoverOnACluster(t *testing.T) {
	c := natstest.Cluster(t, 3)
	w := newWorld(t, c.URL(), logical)
	members := []*member{
		w.startAt(c.Node(0).URL(), "a"), w.startAt(c.Node(1).URL(), "b"), w.startAt(c.Node(2).URL(), "c"),
	}
	w.balanced(30*time.Second, members...)
	begin := time.Now()
	members[0].crash()
	rest := members[1:]
	natstest.Eventually(t, 10*time.Second, "the others serve all", func() bool {
		return rest[0].serving()+rest[1].serving() == logical
	})
	t.Logf("taken over after %s", time.Since(begin))
	natstest.Eventually(t, 5*time.Second, "tables agree", func() bool {
		x, y := rest[0].table.Snapshot(), rest[1].table.Snapshot()
		for id := range slot.ID(logical) {
			if !x.Entry(id).sameLeadership(y.Entry(id)) {
				return false
			}
		}
		return true
	})
}
