package session_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/gateway/internal/owner"
	"github.com/switchyard-io/switchyard/gateway/internal/registry"
	"github.com/switchyard-io/switchyard/gateway/internal/session"
	"github.com/switchyard-io/switchyard/shared/fault"
)

// advance lets synthetic time pass, and what is due happen.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestAuthenticationDeadline(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		c := &fakeConn{}
		s := h.open(c)
		advance(10*time.Second - time.Millisecond)
		s.Active() // traffic does not put it off
		if c.closeCode() != 0 {
			t.Fatalf("close %d before the deadline", c.closeCode())
		}
		advance(time.Millisecond)
		if c.closeCode() != fault.CloseAuthenticationTimeout {
			t.Fatalf("close %d", c.closeCode())
		}
	})
}

func TestAttemptEndsWithTheConnection(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		h.activate = func(ctx context.Context, a *session.Attempt) error {
			<-ctx.Done()
			return ctx.Err()
		}
		c := &fakeConn{}
		s := h.open(c)
		s.Message([]byte(login))
		synctest.Wait()
		s.Message([]byte(login)) // one at a time
		if code := c.errorCode(t); code != fault.InvalidRequest {
			t.Fatal(code)
		}
		s.Closed(0)
		synctest.Wait() // the attempt has ended: goleak and the bubble would see it
		if fs := c.frames(t); len(fs) != 0 {
			t.Fatalf("answered a closed connection: %+v", fs)
		}
	})
}

func TestAnAttemptIsAnsweredWhateverEndsIt(t *testing.T) {
	for _, c := range []struct {
		end  func(*session.Session)
		want string // what is written last but the close
		code fault.CloseCode
	}{
		{func(s *session.Session) { s.End(owner.Ending{Code: fault.CloseReplaced, Action: owner.DuplicateLogin}) },
			`DUPLICATE_SESSION duplicate_login`, fault.CloseReplaced},
		{func(*session.Session) { advance(10 * time.Second) }, `TIMEOUT`, fault.CloseAuthenticationTimeout},
	} {
		bubble(t, func(c *session.Config) { c.RequestTimeout = time.Minute }, func(t *testing.T, h *harness) {
			h.activate = func(ctx context.Context, a *session.Attempt) error {
				h.committed(a)
				<-ctx.Done()
				<-time.After(time.Second) // slow to notice
				return ctx.Err()
			}
			conn := &fakeConn{}
			s := h.open(conn)
			s.Message([]byte(login))
			synctest.Wait()
			c.end(s)
			synctest.Wait()
			fs := conn.frames(t)
			for i, word := range strings.Fields(c.want) {
				if i >= len(fs) || !strings.Contains(string(fs[i].Payload), word) {
					t.Fatalf("%d frames, want %s", len(fs), c.want)
				}
			}
			if fs[0].Kind != frame.KindError || fs[0].ID != 1 || conn.closeCode() != c.code {
				t.Fatalf("%+v, close %d", fs[0], conn.closeCode())
			}
		})
	}
}

func TestHeartbeatsAndIdleTimeout(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		c := &fakeConn{}
		s := h.enter(t, c)
		var beats []time.Duration
		start := time.Now()
		for time.Since(start) < 70*time.Second {
			advance(100 * time.Millisecond)
			for _, f := range c.frames(t) {
				if f.Kind != frame.KindRequest || f.Route != frame.RouteHeartbeat || f.ID != uint64(len(beats)+1) {
					t.Fatalf("%+v", f)
				}
				beats = append(beats, time.Since(start))
			}
		}
		last := time.Duration(0)
		for _, at := range beats {
			if gap := at - last; gap < 20*time.Second || gap > 25*time.Second+200*time.Millisecond {
				t.Fatalf("heartbeats at %v", beats)
			}
			last = at
		}
		if len(beats) < 2 {
			t.Fatalf("heartbeats at %v", beats)
		}
		s.Active()
		advance(74 * time.Second)
		if c.closeCode() != 0 {
			t.Fatalf("close %d though active", c.closeCode())
		}
		advance(time.Second)
		if c.closeCode() != fault.CloseIdleTimeout {
			t.Fatalf("close %d", c.closeCode())
		}
		tombs := h.unregistered()
		if len(tombs) != 1 || tombs[0].State != registry.Active || tombs[0].Session != s.ID() {
			t.Fatalf("unregistered %+v", tombs)
		}
	})
}

func TestActivityMakesDirty(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		s := h.enter(t, &fakeConn{})
		h.reg.Drain(10, nil)
		advance(time.Minute)
		s.Active()
		got := h.reg.Drain(10, nil)
		if len(got) != 1 || got[0].ID != s.ID() || got[0].LastActive != time.Now().UnixMilli() {
			t.Fatalf("dirty: %+v", got)
		}
	})
}

func TestI1_NothingIsAcceptedAfterEnd(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		c := &fakeConn{}
		s := h.enter(t, c)
		e := owner.Ending{Code: fault.CloseReplaced, Action: owner.DuplicateLogin, Reason: "elsewhere"}
		s.End(e)
		if st := s.Push(message("late"), nil); st != owner.Stale {
			t.Fatalf("status %d", st)
		}
		s.End(e)
		f := c.only(t)
		if f.Kind != frame.KindPush || f.Route != frame.RouteControl || f.Seq != 0 ||
			string(f.Payload) != `{"action":"duplicate_login","reason":"elsewhere","reconnect":false}` {
			t.Fatalf("%+v %s", f, f.Payload)
		}
		if c.closeCode() != fault.CloseReplaced || !s.Ended() {
			t.Fatalf("close %d", c.closeCode())
		}
		if _, ok := h.reg.Lookup(s.ID()); ok || len(h.unregistered()) != 1 {
			t.Fatal("still registered")
		}
	})
}
