package natsconn_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
)

const testWait = 10 * time.Second

func newCaller(t *testing.T, nc *nats.Conn, maxPending int) *natsconn.Caller {
	t.Helper()
	c, err := natsconn.NewCaller(nc, maxPending)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func subscribe(t *testing.T, nc *nats.Conn, subject string, h nats.MsgHandler) {
	t.Helper()
	if _, err := nc.Subscribe(subject, h); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

// outcome collects what one call's callback got.
type outcome struct {
	replies []string
	err     error
}

func collect(n int) (natsconn.Callback, <-chan outcome) {
	out := make(chan outcome, 1)
	var o outcome
	return func(m *nats.Msg, err error) bool {
		if err != nil {
			o.err = err
			out <- o
			return true
		}
		o.replies = append(o.replies, string(m.Data))
		if len(o.replies) < n {
			return false
		}
		out <- o
		return true
	}, out
}

func await[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(testWait):
		t.Fatal("waited in vain")
		panic("unreachable")
	}
}

func TestI11_CallsArriveInOrder(t *testing.T) {
	server := natstest.Server(t)
	there := natstest.Conn(t, server.URL())
	const n = 5000
	order := make(chan string, n)
	subscribe(t, there, "order", func(m *nats.Msg) { order <- string(m.Data); _ = m.Respond(m.Data) })
	c := newCaller(t, natstest.Conn(t, server.URL()), n)
	var answered atomic.Int64
	for i := range n {
		want := fmt.Sprint(i)
		err := c.Call("order", []byte(want), nil, time.Now().Add(testWait), func(m *nats.Msg, err error) bool {
			if err == nil && string(m.Data) == want {
				answered.Add(1)
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		if got := await(t, order); got != fmt.Sprint(i) {
			t.Fatalf("call %d arrived as %s", i, got)
		}
	}
	natstest.Eventually(t, testWait, "all answered, none waits", func() bool { return answered.Load() == n && c.Pending() == 0 })
}

func TestCallGetsSeveralReplies(t *testing.T) {
	server := natstest.Server(t)
	there := natstest.Conn(t, server.URL())
	subscribe(t, there, "many", func(m *nats.Msg) {
		for i := range 4 { // one more than is wanted: the last must not be seen
			_ = m.Respond([]byte{byte('a' + i)})
		}
	})
	c := newCaller(t, natstest.Conn(t, server.URL()), 1)
	cb, out := collect(3)
	if err := c.Call("many", nil, nil, time.Now().Add(testWait), cb); err != nil {
		t.Fatal(err)
	}
	if o := await(t, out); o.err != nil || fmt.Sprint(o.replies) != "[a b c]" {
		t.Fatalf("got %+v", o)
	}
}

func TestCallSaysThatNobodyAnswers(t *testing.T) {
	server := natstest.Server(t)
	c := newCaller(t, natstest.Conn(t, server.URL()), 1)
	cb, out := collect(1)
	if err := c.Call("nobody", nil, nil, time.Now().Add(testWait), cb); err != nil {
		t.Fatal(err)
	}
	if o := await(t, out); !errors.Is(o.err, natsconn.ErrNoResponders) {
		t.Fatalf("got %v", o.err)
	}
}

func TestCallEndsAtItsDeadline(t *testing.T) {
	server := natstest.Server(t)
	there := natstest.Conn(t, server.URL())
	subscribe(t, there, "mute", func(m *nats.Msg) {
		if string(m.Data) == "once" {
			_ = m.Respond(nil)
		}
	})
	c := newCaller(t, natstest.Conn(t, server.URL()), 8)
	start := time.Now()
	late, lateOut := collect(1)
	if err := c.Call("mute", nil, nil, start.Add(400*time.Millisecond), late); err != nil {
		t.Fatal(err)
	}
	early, earlyOut := collect(1) // overtakes the one before
	if err := c.Call("mute", nil, nil, start.Add(100*time.Millisecond), early); err != nil {
		t.Fatal(err)
	}
	half, halfOut := collect(2) // gets one reply of two
	if err := c.Call("mute", []byte("once"), nil, start.Add(200*time.Millisecond), half); err != nil {
		t.Fatal(err)
	}
	for _, w := range []struct {
		out     <-chan outcome
		after   time.Duration
		replies int
	}{{earlyOut, 100 * time.Millisecond, 0}, {halfOut, 200 * time.Millisecond, 1}, {lateOut, 400 * time.Millisecond, 0}} {
		o := await(t, w.out)
		if !errors.Is(o.err, fault.ErrTimeout) || len(o.replies) != w.replies {
			t.Fatalf("got %+v", o)
		}
		if d := time.Since(start); d < w.after {
			t.Fatalf("ended after %v, before its deadline of %v", d, w.after)
		}
	}
	if err := c.Call("mute", nil, nil, time.Now().Add(-time.Second), early); !errors.Is(err, fault.ErrTimeout) {
		t.Fatalf("a call that is late already: %v", err)
	}
}

func TestI12_CallsAreBounded(t *testing.T) {
	server := natstest.Server(t)
	there := natstest.Conn(t, server.URL())
	subscribe(t, there, "mute", func(*nats.Msg) {})
	c := newCaller(t, natstest.Conn(t, server.URL()), 2)
	ended := make(chan error, 2)
	cb := func(_ *nats.Msg, err error) bool { ended <- err; return true }
	for range 2 {
		if err := c.Call("mute", nil, nil, time.Now().Add(testWait), cb); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Call("mute", nil, nil, time.Now().Add(testWait), cb); !errors.Is(err, fault.ErrQueueFull) {
		t.Fatalf("the third of two: %v", err)
	}
	c.Close()
	for range 2 {
		if err := await(t, ended); !errors.Is(err, fault.ErrUnavailable) {
			t.Fatalf("ended by Close with %v", err)
		}
	}
	if err := c.Call("mute", nil, nil, time.Now().Add(testWait), cb); !errors.Is(err, fault.ErrUnavailable) {
		t.Fatalf("after Close: %v", err)
	}
}

func TestCallTooLarge(t *testing.T) {
	server := natstest.Server(t)
	c := newCaller(t, natstest.Conn(t, server.URL()), 2)
	err := c.Call("x", make([]byte, 64<<20), nil, time.Now().Add(testWait), func(*nats.Msg, error) bool {
		t.Error("called back after an error")
		return true
	})
	if !errors.Is(err, fault.ErrTooLarge) || c.Pending() != 0 {
		t.Fatalf("%v, %d pending", err, c.Pending())
	}
}

// Whatever races, a call that was taken ends exactly once.
func TestEveryCallEndsOnce(t *testing.T) {
	server := natstest.Server(t)
	there := natstest.Conn(t, server.URL())
	subscribe(t, there, "echo", func(m *nats.Msg) { _ = m.Respond(nil) })
	c := newCaller(t, natstest.Conn(t, server.URL()), 1000)
	const workers, each = 4, 2000
	ends := make([]atomic.Int32, workers*each)
	var taken [workers * each]bool
	var made atomic.Int32
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w * each; i < (w+1)*each; i++ {
				// Deadlines so short that replies, time-outs and Close all meet.
				err := c.Call("echo", nil, nil, time.Now().Add(time.Duration(i%40)*100*time.Microsecond), func(*nats.Msg, error) bool {
					ends[i].Add(1)
					return true
				})
				taken[i] = err == nil
				made.Add(1)
			}
		})
	}
	natstest.Eventually(t, testWait, "half of them made", func() bool { return made.Load() > int32(len(ends)/2) })
	c.Close()
	wg.Wait()
	for i := range ends {
		want := int32(0)
		if taken[i] {
			want = 1
		}
		if got := ends[i].Load(); got != want {
			t.Fatalf("call %d (taken %v) ended %d times", i, taken[i], got)
		}
	}
}

func BenchmarkCaller(b *testing.B) {
	server := natstest.Server(b)
	there := natstest.Conn(b, server.URL())
	if _, err := there.Subscribe("echo", func(m *nats.Msg) { _ = m.Respond(nil) }); err != nil {
		b.Fatal(err)
	}
	if err := there.Flush(); err != nil {
		b.Fatal(err)
	}
	c, err := natsconn.NewCaller(natstest.Conn(b, server.URL()), 4096)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	room := make(chan struct{}, 1024)
	b.ReportAllocs()
	for b.Loop() {
		room <- struct{}{}
		if err := c.Call("echo", nil, nil, time.Now().Add(5*time.Second), func(*nats.Msg, error) bool { <-room; return true }); err != nil {
			b.Fatal(err)
		}
	}
}
