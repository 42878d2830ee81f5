package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/subject"
)

const (
	settleLimit = 60 * time.Second
	maxBytes    = 1 << 20
)

// bucketOn opens the ledger's bucket over a connection of its own.
func bucketOn(t *testing.T, url string, replicas int) (*Ledger, jetstream.JetStream) {
	t.Helper()
	nc := natstest.Conn(t, url)
	js, err := natsconn.JetStream(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := natsconn.EnsureKV(t.Context(), js, Bucket(replicas, maxBytes)); err != nil {
		t.Fatal(err)
	}
	return New(NewJetStream(nc, js)), js
}

// TestExpiredRecordIsNoRecord: the marker that an expired record leaves is read as nothing.
func TestExpiredRecordIsNoRecord(t *testing.T) {
	_, js := bucketOn(t, natstest.Server(t).URL(), 1)
	store := NewJetStream(js.Conn(), js)
	l := New(store)
	if err := store.Write(t.Context(), "t1", []byte(`{"state":"redeemed","session":"`+bob.String()+`"}`), 0, time.Second); err != nil {
		t.Fatal(err)
	}
	if o := redeem(t, l, alice); o != Used {
		t.Fatalf("before: %d", o)
	}
	natstest.Eventually(t, 10*time.Second, "the record expires", func() bool {
		value, rev, err := store.Read(t.Context(), "t1")
		return err == nil && len(value) == 0 && rev > 0
	})
	if o := redeem(t, l, alice); o != Done {
		t.Fatalf("over the marker: %d", o)
	}
	if o := redeem(t, l, bob); o != Used {
		t.Fatalf("after: %d", o)
	}
}

// TestI5_AFullLedgerForgetsNothing: what does not fit is refused, and used tickets stay used.
func TestI5_AFullLedgerForgetsNothing(t *testing.T) {
	_, js := bucketOn(t, natstest.Server(t).URL(), 1)
	status, err := js.KeyValue(t.Context(), subject.BucketTickets)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := status.Status(t.Context()); err != nil || s.Config().MaxBytes != maxBytes {
		t.Fatalf("%+v %v", s, err)
	}
	l, store := New(NewJetStream(js.Conn(), js)), NewJetStream(js.Conn(), js)
	redeem(t, l, alice)
	for _, size := range []int{1 << 10, 1} { // up to the last byte
		err = nil
		for i := 0; err == nil; i++ {
			if i > maxBytes/1000 {
				t.Fatal("there is no bound")
			}
			err = store.Write(t.Context(), fmt.Sprintf("fill-%d-%d", size, i), make([]byte, size), 0, time.Minute)
		}
	}
	if errors.Is(err, ErrConflict) {
		t.Fatalf("refused with %v", err)
	}
	if o := redeem(t, l, bob); o != Used {
		t.Fatalf("a used ticket: %d", o)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := l.Redeem(ctx, "t2", alice, until, start); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("another ticket: %v", err)
	}
}

// TestI5_StreamLeaderLost: sessions contend for tickets while the server that leads the ledger's
// stream goes away. Answers are late or lost; still every ticket ends with one session, which
// hears so, and stays with it.
func TestI5_StreamLeaderLost(t *testing.T) {
	cluster := natstest.Cluster(t, 3)
	var ledgers []*Ledger
	var js jetstream.JetStream
	for range 2 {
		var l *Ledger
		l, js = bucketOn(t, cluster.URL(), 3)
		ledgers = append(ledgers, l)
	}
	const tickets, sessions = 40, 4
	winners := make([][]identity.SessionID, tickets)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range tickets {
		id := "ticket-" + strconv.Itoa(i)
		for s := range sessions {
			wg.Go(func() {
				me := identity.NewSessionID(uint8(s))
				if o := settled(t, ledgers[s%len(ledgers)], id, me); o == Done {
					mu.Lock()
					winners[i] = append(winners[i], me)
					mu.Unlock()
				}
			})
		}
		if i == tickets/2 {
			stopLeader(t, cluster, js)
		}
	}
	wg.Wait()
	for i, w := range winners {
		if len(w) != 1 {
			t.Errorf("ticket %d has %d sessions", i, len(w))
			continue
		}
		id := "ticket-" + strconv.Itoa(i)
		if o := settled(t, ledgers[0], id, w[0]); o != Done {
			t.Errorf("ticket %d was lost by its session: %d", i, o)
		}
		if o := settled(t, ledgers[1], id, identity.NewSessionID(9)); o != Used {
			t.Errorf("ticket %d can be used again: %d", i, o)
		}
	}
}

// settled redeems until there is an outcome, as a gateway does.
func settled(t *testing.T, l *Ledger, id string, session identity.SessionID) Outcome {
	ctx, cancel := context.WithTimeout(context.Background(), settleLimit)
	defer cancel()
	for {
		o, err := l.Redeem(ctx, id, session, until, start)
		if err == nil {
			return o
		}
		if !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			t.Errorf("%s: %v", id, err)
			return 0
		}
	}
}

func stopLeader(t *testing.T, c *natstest.Servers, js jetstream.JetStream) {
	s, err := js.Stream(t.Context(), subject.KVStream(subject.BucketTickets))
	if err != nil {
		t.Error(err)
		return
	}
	leader := s.CachedInfo().Cluster.Leader
	var n int
	if _, err := fmt.Sscanf(leader, "server-%d", &n); err != nil {
		t.Errorf("no server is called %q", leader)
		return
	}
	c.Stop(n - 1)
}
