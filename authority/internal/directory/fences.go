package directory

import (
	"sync"
	"sync/atomic"
)

// fences are the owners that are gone, for all slots. An owner is fenced before the slots are
// swept of its routes, and every slot looks here under its own mutex: so what comes before the
// sweep is swept, and what comes after it is refused (I8).
type fences struct {
	n   atomic.Int32 // len(set), for the usual case of none
	mu  sync.RWMutex // leaf; taken under a cell's mutex
	set deadlines[ownerKey, struct{}]
}

func (f *fences) has(o ownerKey) bool {
	if f.n.Load() == 0 {
		return false
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	_, ok := f.set.get(o)
	return ok
}

// raise fences an owner. Of more than limit the oldest goes.
func (f *fences) raise(o ownerKey, at int64, limit int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set.put(o, struct{}{}, at)
	for f.set.len() > limit {
		oldest, _, _ := f.set.oldest()
		f.set.drop(oldest)
	}
	f.n.Store(int32(f.set.len()))
}

func (f *fences) lift(o ownerKey) {
	if f.n.Load() == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set.drop(o)
	f.n.Store(int32(f.set.len()))
}

// liftUntil lifts those raised at or before a time, and returns when the next one was raised.
func (f *fences) liftUntil(at int64) (next int64, some bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set.dropUntil(at)
	f.n.Store(int32(f.set.len()))
	_, next, some = f.set.oldest()
	return next, some
}
