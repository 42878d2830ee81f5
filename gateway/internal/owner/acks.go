package owner

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// acks counts the acknowledgements that are waited for, against their bound.
type acks struct {
	max  int64
	open atomic.Int64
}

func (a *acks) acquire() bool {
	if a.open.Add(1) > a.max {
		a.open.Add(-1)
		return false
	}
	return true
}

// ackSet is the acknowledgements that one push waits for, each under a number of its own. Each is
// reported once: as the session says, or together with the others that are open at the deadline.
type ackSet struct {
	book *acks
	// report is called without mu, from the goroutine of a session's word or of the timer.
	report func(numbers []uint32, acked bool)

	mu     sync.Mutex
	open   []uint32
	busy   int // reports under way
	sealed bool
	timer  *time.Timer
	after  func() // once sealed and nothing is open
}

// newAckSet makes an empty set. Add to it in rising order, then seal it.
func newAckSet(book *acks, report func([]uint32, bool)) *ackSet {
	return &ackSet{book: book, report: report}
}

// add opens a wait; false when too many are open. The returned function is for the session to call.
func (s *ackSet) add(n uint32) (acked Acked, ok bool) {
	if !s.book.acquire() {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = append(s.open, n)
	return func(ok bool) {
		if s.begin(n) {
			s.report([]uint32{n}, ok)
			s.finish()
		}
	}, true
}

// remove takes one wait out unreported, and tells whether it was open.
func (s *ackSet) remove(n uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.removeLocked(n)
}

// begin takes one wait out to report it; finish follows if it was open.
func (s *ackSet) begin(n uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.removeLocked(n) {
		return false
	}
	s.busy++
	return true
}

func (s *ackSet) finish() {
	s.mu.Lock()
	s.busy--
	s.mu.Unlock()
	s.settle()
}

func (s *ackSet) removeLocked(n uint32) bool {
	i, ok := slices.BinarySearch(s.open, n) // they are added in rising order
	if !ok {
		return false
	}
	s.open = slices.Delete(s.open, i, i+1)
	s.book.open.Add(-1)
	return true
}

// seal says that nothing more is added, and starts the clock. It reports whether any wait is open.
func (s *ackSet) seal(until time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = true
	if len(s.open) == 0 {
		return false
	}
	s.timer = time.AfterFunc(time.Until(until), s.expire)
	return true
}

// expire reports what is still open as not acknowledged.
func (s *ackSet) expire() {
	s.mu.Lock()
	late := s.open
	s.open = nil
	s.book.open.Add(-int64(len(late)))
	s.busy++
	s.mu.Unlock()
	if len(late) > 0 {
		s.report(late, false)
	}
	s.finish()
}

// then has f called once, when nothing is open any more and the last report is out; at once if so
// already. It takes the place of an earlier f that was not called yet.
func (s *ackSet) then(f func()) {
	s.mu.Lock()
	s.after = f
	s.mu.Unlock()
	s.settle()
}

func (s *ackSet) settle() {
	s.mu.Lock()
	if !s.sealed || len(s.open) > 0 || s.busy > 0 {
		s.mu.Unlock()
		return
	}
	f := s.after
	s.after = nil
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	if f != nil {
		f()
	}
}
