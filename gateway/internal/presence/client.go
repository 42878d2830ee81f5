package presence

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard-io/switchyard/shared/slot"
)

// Client makes a gateway's calls to the presence authority. Make one with New, start its workers
// with Run.
type Client struct {
	cfg      Config
	caller   Caller
	table    Table
	sessions Sessions
	counts   counts

	// hints are targets that answers named and the slot table may not know yet; the newer of the
	// two is used. They move forward, and go when nobody answers there: then the table decides.
	hints [slot.Count]atomic.Pointer[slot.Target]

	wake    chan struct{} // capacity 1: the slot table changed
	removed *unregisterQueue
	restore restoreState
}

// New makes a Client. It starts nothing: SlotChanged and the calls work at once, the workers
// with Run.
func New(cfg Config, caller Caller, table Table, sessions Sessions) (*Client, error) {
	if err := cfg.defaults(); err != nil {
		return nil, err
	}
	return &Client{
		cfg: cfg, caller: caller, table: table, sessions: sessions,
		wake:    make(chan struct{}, 1),
		removed: newUnregisterQueue(cfg.UnregisterQueue),
	}, nil
}

// Run runs the touch, unregister and restore workers until ctx ends, and returns when all have
// stopped.
func (c *Client) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { c.runTouch(ctx) })
	wg.Go(func() { c.runUnregister(ctx) })
	wg.Go(func() { c.runRestore(ctx) })
	wg.Wait()
}

// SlotChanged tells that the slot table changed, so that a new term is told at once what this
// gateway holds. It never blocks; subscribe it to the table.
func (c *Client) SlotChanged() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Activated must be called after a committed session was marked active in the registry, and before
// its client is answered. A term that began between the commit and that moment was told of this
// gateway's sessions without this one; it is told now, so that a client that was answered is
// never seen as offline (I7). Almost always it returns at once.
//
// An error means that the session could not be announced within ctx: end it, or leave it to
// the touch worker, which will find it missing.
func (c *Client) Activated(ctx context.Context, r Registration) error {
	t, ok := c.target(slot.Hash(r.Session.HashSlot()))
	if !ok || t.SameFence(r.Target) {
		return nil
	}
	return c.announce(ctx, r.Session)
}

// target is the newest leader of h that this client knows.
func (c *Client) target(h slot.Hash) (slot.Target, bool) {
	t, ok := c.table.Target(h)
	if hint := c.hints[h].Load(); hint != nil && (!ok || hint.Newer(t)) {
		return *hint, true
	}
	return t, ok
}

// learn keeps a target that an answer named, if it is newer than what is known.
func (c *Client) learn(t slot.Target) {
	p := &c.hints[t.Hash]
	for {
		old := p.Load()
		if old != nil && !t.Newer(*old) {
			return
		}
		if p.CompareAndSwap(old, &t) {
			return
		}
	}
}

// doubt drops a hint that led to where nobody answers.
func (c *Client) doubt(t slot.Target) {
	p := &c.hints[t.Hash]
	if hint := p.Load(); hint != nil && hint.SameFence(t) {
		p.CompareAndSwap(hint, nil)
	}
}

// counts are what the client counts; instruments read them.
type counts struct {
	attempts, retries, stale, noResponders, timeouts, malformed     atomic.Int64
	touched, touchFailed, missing                                   atomic.Int64
	unregistered, unregisterFenced, unregisterRetry, unregisterFull atomic.Int64
	restored, restoreFailed, restoreClosed, restoreComplete         atomic.Int64
}

// deadline is the end of one attempt: no later than ctx's.
func (c *Client) deadline(ctx context.Context) time.Time {
	end := time.Now().Add(c.cfg.AttemptTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(end) {
		return d
	}
	return end
}
