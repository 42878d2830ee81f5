package session_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/gateway/internal/owner"
	"github.com/switchyard-io/switchyard/gateway/internal/session"
	"github.com/switchyard-io/switchyard/shared/fault"
)

func message(text string) *owner.Message {
	return &owner.Message{Route: 100, Payload: []byte(`"` + text + `"`)}
}

func TestI11_PushesAreNumberedInOrder(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		c := &fakeConn{}
		s := h.enter(t, c)
		var wg sync.WaitGroup
		for p := range 4 { // each publisher's own order is kept, whoever else pushes
			wg.Go(func() {
				for i := range 50 {
					if st := s.Push(message(fmt.Sprintf("%d-%02d", p, i)), nil); st != owner.Queued {
						t.Errorf("status %d", st)
					}
				}
			})
		}
		wg.Wait()
		last := map[byte]string{}
		for i, f := range c.frames(t) {
			if f.Kind != frame.KindPush || f.Seq != uint32(i+1) {
				t.Fatalf("frame %d has seq %d", i, f.Seq)
			}
			if text := string(f.Payload); text <= last[text[1]] {
				t.Fatalf("%s after %s", text, last[text[1]])
			} else {
				last[text[1]] = text
			}
		}
	})
}

func TestPushBetweenCommitAndAnswer(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		proceed := make(chan struct{})
		h.activate = func(ctx context.Context, a *session.Attempt) error {
			e := h.committed(a)
			select {
			case <-proceed:
			case <-ctx.Done():
			}
			if !h.reg.MarkActive(e) {
				return session.ErrClosed
			}
			return a.Announce(session.Grant{Identity: alice}, session.Reconnect{})
		}
		c := &fakeConn{}
		s := h.open(c)
		s.Message([]byte(login))
		synctest.Wait()
		e, ok := h.reg.Exact(alice.UID(), s.ID(), 1)
		if !ok || e.Handle != s {
			t.Fatal("a committing session is not addressable")
		}
		brief := message("brief") // in time when it was taken, which is what its sender is told
		brief.Expires = time.Now().Add(time.Second)
		for _, m := range []*owner.Message{message("one"), brief, message("two")} {
			if st := s.Push(m, nil); st != owner.Queued {
				t.Fatalf("status %d", st)
			}
		}
		for range maxHeld - 3 {
			s.Push(message("more"), nil)
		}
		if st := s.Push(message("over"), nil); st != owner.Overflow {
			t.Fatalf("over the bound: status %d", st)
		}
		if fs := c.frames(t); len(fs) != 0 {
			t.Fatalf("written before the answer: %+v", fs)
		}
		advance(2 * time.Second)
		close(proceed)
		synctest.Wait()
		fs := c.frames(t)
		if len(fs) != maxHeld+1 || fs[0].Kind != frame.KindResponse || string(fs[1].Payload) != `"one"` || fs[1].Seq != 1 ||
			string(fs[2].Payload) != `"brief"` || fs[2].Seq != 2 || string(fs[3].Payload) != `"two"` {
			t.Fatalf("%d frames: %+v", len(fs), fs[:4])
		}
	})
}

// committing is a session whose login is under way until end is closed, and then succeeds or not.
func (h *harness) committing(t *testing.T, c *fakeConn, fails bool) (s *session.Session, end chan struct{}) {
	end = make(chan struct{})
	h.activate = func(ctx context.Context, a *session.Attempt) error {
		e := h.committed(a)
		select {
		case <-end:
		case <-ctx.Done():
		}
		if fails || !h.reg.MarkActive(e) {
			return fault.ErrUnavailable
		}
		return a.Announce(session.Grant{Identity: alice}, session.Reconnect{})
	}
	s = h.open(c)
	s.Message([]byte(login))
	synctest.Wait()
	return s, end
}

// TestHeldPushesAreReportedAsTheyEnd: a repeat that comes before the answer is known as one, so that
// nobody waits for an acknowledgement of what is not written.
func TestHeldPushesAreReportedAsTheyEnd(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		c := &fakeConn{}
		s, end := h.committing(t, c, false)
		acked := 0
		var got []owner.Status
		for range 3 {
			m := message("x")
			m.MessageID, m.Ack, m.AckUntil = "a", true, time.Now().Add(5*time.Second)
			got = append(got, s.Push(m, func(bool) { acked++ }))
			if len(got) == 2 {
				close(end)
				synctest.Wait()
			}
		}
		if want := []owner.Status{owner.Waiting, owner.Queued, owner.Queued}; !slices.Equal(got, want) {
			t.Fatalf("statuses %v, want %v", got, want)
		}
		if fs := c.frames(t); len(fs) != 2 || fs[1].Kind != frame.KindPush {
			t.Fatalf("%d frames", len(fs))
		}
		s.Message([]byte(`{"id":2,"route":5,"payload":{"seqs":[1]}}`))
		if st := h.host.Stats(); acked != 1 || st.Duplicates != 2 || st.Unsent != 0 {
			t.Fatalf("acked %d, %+v", acked, st)
		}
	})
}

// TestUnsentPushesAreCounted: those held for a login that fails, or for a session that ends.
func TestUnsentPushesAreCounted(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		refused, end := h.committing(t, &fakeConn{}, true)
		refused.Push(message("x"), nil)
		close(end)
		synctest.Wait()
		if n := h.host.Stats().Unsent; n != 1 {
			t.Fatalf("%d unsent after a refusal", n)
		}
		c := &fakeConn{room: 2} // the answer and a push
		full, end := h.committing(t, c, false)
		for range 3 {
			full.Push(message("x"), nil)
		}
		close(end)
		synctest.Wait()
		if n := h.host.Stats().Unsent; n != 3 {
			t.Fatalf("%d unsent after a full queue", n)
		}
		ended, end := h.committing(t, &fakeConn{}, false)
		ended.Push(message("x"), nil)
		ended.Closed(0)
		close(end)
		if n := h.host.Stats().Unsent; n != 4 {
			t.Fatalf("%d unsent after an end", n)
		}
	})
}

func TestMessageIDWindow(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		c := &fakeConn{}
		s := h.enter(t, c)
		named := func(id string) *owner.Message {
			m := message("x")
			m.MessageID = id
			return m
		}
		for range 3 {
			if st := s.Push(named("a"), nil); st != owner.Queued {
				t.Fatalf("status %d", st)
			}
		}
		if fs := c.frames(t); len(fs) != 1 {
			t.Fatalf("written %d times", len(fs))
		}
		for i := range messageWindow {
			s.Push(named(fmt.Sprint(i)), nil)
		}
		c.frames(t)
		s.Push(named("a"), nil) // out of the window by now
		s.Push(named(fmt.Sprint(messageWindow-1)), nil)
		if f := c.only(t); f.Seq != messageWindow+2 {
			t.Fatalf("seq %d", f.Seq)
		}
		if d := h.host.Stats().Duplicates; d != 3 {
			t.Fatalf("%d duplicates", d)
		}
	})
}

func TestAcknowledgements(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		c := &fakeConn{}
		s := h.enter(t, c)
		var acked []int
		push := func(n int) {
			m := message("x")
			m.Ack, m.AckUntil = true, time.Now().Add(5*time.Second)
			if st := s.Push(m, func(bool) { acked = append(acked, n) }); st != owner.Waiting {
				t.Fatalf("status %d", st)
			}
		}
		for n := range 4 {
			push(n + 1)
		}
		if f := c.frames(t)[0]; !f.Ack {
			t.Fatalf("%+v", f)
		}
		s.Message([]byte(`{"id":2,"route":5,"payload":{"seqs":[3,1,3,99]}}`))
		s.Message([]byte(`{"id":2,"route":5,"payload":{"seqs":[1,2]}}`))
		if fmt.Sprint(acked) != "[3 1 2]" {
			t.Fatalf("acked %v", acked)
		}
		advance(6 * time.Second)
		for n := range maxAcks + 1 {
			push(100 + n)
		}
		acked = nil
		s.Message([]byte(`{"id":2,"route":5,"payload":{"seqs":[4,5,6]}}`)) // too late, pushed out by the bound, waiting
		if fmt.Sprint(acked) != "[101]" {
			t.Fatalf("acked %v", acked)
		}
	})
	bubble(t, nil, func(t *testing.T, h *harness) { // elura.v2 sessions cannot acknowledge
		h.activate = func(_ context.Context, a *session.Attempt) error {
			h.reg.MarkActive(h.committed(a))
			numeric := alice
			numeric.AccountID, numeric.UserID, numeric.RegionID, numeric.RealmID = "1", "1", "1", "1"
			return a.Announce(session.Grant{Identity: numeric}, session.Reconnect{})
		}
		s := h.enter(t, &fakeConn{codec: frame.ELR2})
		m := message("x")
		m.Ack = true
		if st := s.Push(m, func(bool) {}); st != owner.Queued {
			t.Fatalf("status %d", st)
		}
	})
}

func TestI12_AFullQueueIsReported(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		c := &fakeConn{}
		s := h.enter(t, c)
		c.mu.Lock()
		c.room = 2
		c.mu.Unlock()
		var got []owner.Status
		for range 3 {
			got = append(got, s.Push(message("x"), nil))
		}
		s.Closed(fault.CloseSlowConsumer) // as the transport does then
		got = append(got, s.Push(message("x"), nil))
		if want := []owner.Status{owner.Queued, owner.Queued, owner.Overflow, owner.Stale}; !slices.Equal(got, want) {
			t.Fatalf("statuses %v, want %v", got, want)
		}
		if st := h.host.Stats(); st.Overflows != 1 || st.Closed[fault.CloseSlowConsumer] != 1 {
			t.Fatalf("%+v", st)
		}
	})
}

// TestAcksEndWithTheSession: who waits for an acknowledgement hears at once that none will come,
// whether the push was written or held.
func TestAcksEndWithTheSession(t *testing.T) {
	push := func(s *session.Session, got *[]bool) {
		m := message("x")
		m.Ack, m.AckUntil = true, time.Now().Add(time.Hour)
		if st := s.Push(m, func(ok bool) { *got = append(*got, ok) }); st != owner.Waiting {
			t.Fatal(st)
		}
	}
	bubble(t, nil, func(t *testing.T, h *harness) {
		s := h.enter(t, &fakeConn{})
		var got []bool
		push(s, &got)
		push(s, &got)
		s.Message([]byte(`{"id":9,"route":5,"payload":{"seqs":[1]}}`))
		s.End(owner.Ending{Code: fault.CloseReplaced, Action: owner.DuplicateLogin})
		s.Closed(fault.CloseReplaced)
		if !slices.Equal(got, []bool{true, false}) {
			t.Fatalf("heard %v", got)
		}
	})
	bubble(t, nil, func(t *testing.T, h *harness) { // held, and the login fails
		var got []bool
		h.activate = func(_ context.Context, a *session.Attempt) error {
			h.committed(a)
			push(a.Session, &got)
			return fault.ErrUnavailable
		}
		h.open(&fakeConn{}).Message([]byte(login))
		synctest.Wait()
		if !slices.Equal(got, []bool{false}) {
			t.Fatalf("heard %v", got)
		}
	})
}
