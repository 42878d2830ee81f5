package ledger

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/shared/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errTimeout = errors.New("timeout")

// fakeStore is a Store whose calls can be made to fail: before doing anything, or after.
type fakeStore struct {
	mu      sync.Mutex
	values  map[string][]byte
	revs    map[string]uint64
	ttls    map[string]time.Duration
	writes  int
	onWrite func(n int) fate // n counts from 1
	onRead  func() fate
}

type fate int

const (
	works fate = iota
	lost       // the request never arrives
	mute       // done, but the answer is lost
	hangs      // nothing arrives until the context ends
)

func newFake() *fakeStore {
	return &fakeStore{values: map[string][]byte{}, revs: map[string]uint64{}, ttls: map[string]time.Duration{}}
}

func (s *fakeStore) Write(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) error {
	s.mu.Lock()
	s.writes++
	f := works
	if s.onWrite != nil {
		f = s.onWrite(s.writes)
	}
	s.mu.Unlock()
	switch f {
	case lost:
		return errTimeout
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revs[key] != rev {
		return ErrConflict
	}
	s.values[key], s.ttls[key] = value, ttl
	s.revs[key]++
	if f == mute {
		return errTimeout
	}
	return nil
}

func (s *fakeStore) Read(ctx context.Context, key string) ([]byte, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.onRead != nil {
		switch s.onRead() {
		case lost, mute:
			return nil, 0, errTimeout
		case hangs:
			return nil, 0, ctx.Err()
		}
	}
	return s.values[key], s.revs[key], nil
}

var (
	alice = identity.NewSessionID(1)
	bob   = identity.NewSessionID(1)
	start = time.Now()
	until = start.Add(time.Minute)
)

func redeem(t *testing.T, l *Ledger, s identity.SessionID) Outcome {
	t.Helper()
	o, err := l.Redeem(t.Context(), "t1", s, until, start)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func release(t *testing.T, l *Ledger, s identity.SessionID) Outcome {
	t.Helper()
	o, err := l.Release(t.Context(), "t1", s)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestI5_OneSessionHasTheTicket(t *testing.T) {
	l := New(newFake())
	if o := redeem(t, l, alice); o != Done {
		t.Fatalf("first: %d", o)
	}
	if o := redeem(t, l, alice); o != Done {
		t.Fatalf("a repeat of the same session: %d", o)
	}
	if o := redeem(t, l, bob); o != Used {
		t.Fatalf("another session: %d", o)
	}
	if o := release(t, l, bob); o != Used {
		t.Fatalf("a release by another session: %d", o)
	}
	if o := redeem(t, l, bob); o != Used {
		t.Fatalf("after that: %d", o)
	}
}

func TestReleaseMakesUsableAgain(t *testing.T) {
	l := New(newFake())
	redeem(t, l, alice)
	for range 2 { // a repeated release is answered alike
		if o := release(t, l, alice); o != Done {
			t.Fatalf("release: %d", o)
		}
	}
	if o := redeem(t, l, alice); o != Released {
		t.Fatalf("a late redeem of the released session: %d", o)
	}
	if o := redeem(t, l, bob); o != Done {
		t.Fatalf("another session: %d", o)
	}
	if o := release(t, l, alice); o != Used {
		t.Fatalf("a late release of the first session: %d", o)
	}
}

// TestI5_ReleaseOvertakesRedeem: the gateway gave up, its release comes before its redeem.
func TestI5_ReleaseOvertakesRedeem(t *testing.T) {
	l := New(newFake())
	if o := release(t, l, alice); o != Done {
		t.Fatalf("release of what is not there: %d", o)
	}
	if o := redeem(t, l, alice); o != Released {
		t.Fatalf("its redeem: %d", o)
	}
	if o := redeem(t, l, bob); o != Done {
		t.Fatalf("another session: %d", o)
	}
}

func TestRecordsOutliveTheirTicket(t *testing.T) {
	s := newFake()
	l := New(s)
	redeem(t, l, alice)
	if got := s.ttls["t1"]; got < until.Sub(start)+skewMargin {
		t.Fatalf("kept for %s only", got)
	}
	release(t, l, alice)
	if got := s.ttls["t1"]; got <= MaxDeadline {
		t.Fatalf("the release is gone after %s, before a late redeem", got)
	}
}

// TestI5_LostAnswersAreSettledByReading: the write was done, its answer was lost.
func TestI5_LostAnswersAreSettledByReading(t *testing.T) {
	for name, first := range map[string]fate{"write lost": lost, "answer lost": mute} {
		t.Run(name, func(t *testing.T) {
			s := newFake()
			s.onWrite = func(n int) fate {
				if n == 1 {
					return first
				}
				return works
			}
			l := New(s)
			if o := redeem(t, l, alice); o != Done {
				t.Fatalf("own value not adopted: %d", o)
			}
			if o := redeem(t, l, bob); o != Used {
				t.Fatalf("another session: %d", o)
			}
		})
	}
}

// TestI5_LostRaceIsNotAdopted: the answer was lost because another session's write came first.
func TestI5_LostRaceIsNotAdopted(t *testing.T) {
	s := newFake()
	l := New(s)
	redeem(t, l, bob)
	s.onWrite = func(int) fate { return lost }
	if o := redeem(t, l, alice); o != Used {
		t.Fatalf("got %d", o)
	}
}

func TestStoreAwayIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		s.onWrite = func(int) fate { return hangs }
		s.onRead = func() fate { return lost }
		began := time.Now()
		_, err := New(s).Redeem(t.Context(), "t1", alice, until, start)
		if !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		if took := time.Since(began); took > MaxDeadline+time.Second {
			t.Fatalf("took %s", took)
		}
	})
}

// TestStoreComesBack: an outage shorter than the request's deadline only delays.
func TestStoreComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake()
		back := time.Now().Add(6 * time.Second)
		away := func() fate {
			if time.Now().Before(back) {
				return lost
			}
			return works
		}
		s.onWrite, s.onRead = func(int) fate { return away() }, away
		if o := redeem(t, New(s), alice); o != Done {
			t.Fatalf("got %d", o)
		}
	})
}

func TestI5_ConcurrentRedeemsHaveOneWinner(t *testing.T) {
	s := newFake()
	s.onWrite = func(n int) fate { return fate(n % 3) } // works, lost, mute
	l := New(s)
	const n = 50
	outcomes := make([]Outcome, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			o, err := l.Redeem(context.Background(), "t1", identity.NewSessionID(1), until, start)
			if err != nil {
				t.Error(err)
			}
			outcomes[i] = o
		})
	}
	wg.Wait()
	won := 0
	for _, o := range outcomes {
		if o == Done {
			won++
		} else if o != Used {
			t.Errorf("outcome %d", o)
		}
	}
	if won != 1 {
		t.Fatalf("%d won", won)
	}
}
