package presence

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// runTouch drains dirty sessions every TouchInterval until ctx ends.
func (c *Client) runTouch(ctx context.Context) {
	tick := time.NewTicker(c.cfg.TouchInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.drainDirty(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// drainDirty touches until nothing is dirty. It stops at the first failure: what failed is
// dirty again and waits for the next tick.
func (c *Client) drainDirty(ctx context.Context) {
	limit := c.cfg.BatchSessions * c.cfg.MaxInFlight
	var records []Record
	for ctx.Err() == nil {
		records = c.sessions.Dirty(records[:0], limit)
		if len(records) == 0 || !c.touch(ctx, records) || len(records) < limit {
			return
		}
	}
}

// touch tells the leaders of the records' slots, at most MaxInFlight batches at a time, and
// reports whether all of them heard.
func (c *Client) touch(ctx context.Context, records []Record) bool {
	entries := make([]entry, len(records))
	for i, r := range records {
		entries[i] = entry{r.UID, r.Session, r.OwnerSeq, r.LastActive}
	}
	batches, lost := c.split(entries)
	c.requeue(lost)
	var (
		wg     sync.WaitGroup
		failed atomic.Bool
		free   = make(chan struct{}, c.cfg.MaxInFlight)
	)
	failed.Store(len(lost) > 0)
	for _, b := range batches {
		free <- struct{}{} // each attempt ends by its deadline
		wg.Go(func() {
			defer func() { <-free }()
			if !c.touchBatch(ctx, b) {
				failed.Store(true)
			}
		})
	}
	wg.Wait()
	return !failed.Load()
}

func (c *Client) touchBatch(ctx context.Context, b *batch) bool {
	results, err := c.send(ctx, subject.AuthorityTouch, b)
	if err != nil {
		for _, g := range b.groups {
			c.requeue(g)
		}
		return false
	}
	ok := true
	var missing []identity.SessionID
	for i, r := range results {
		switch r.Status {
		case wirepb.Status_STATUS_OK:
			c.counts.touched.Add(int64(len(b.groups[i])))
			if lost := c.missingOf(b.targets[i].Hash, r.Missing); len(lost) > 0 {
				missing = append(missing, lost...)
				c.forget(b.targets[i]) // where one is missing, others may be
			}
		case wirepb.Status_STATUS_INVALID:
			ok = false // to send the same again would be as wrong
			c.counts.touchFailed.Add(int64(len(b.groups[i])))
		default:
			ok = false
			c.redirected(b.targets[i].Hash, r.Status, r.Current)
			c.requeue(b.groups[i])
		}
	}
	if len(missing) > 0 && !c.restoreSessions(ctx, missing) {
		ok = false
	}
	return ok
}

// missingOf reads the session ids of a touch result; those of another slot are malformed.
func (c *Client) missingOf(h slot.Hash, raw [][]byte) []identity.SessionID {
	ids := c.ids(h, raw)
	c.counts.missing.Add(int64(len(ids)))
	return ids
}

func (c *Client) ids(h slot.Hash, raw [][]byte) []identity.SessionID {
	var ids []identity.SessionID
	for _, b := range raw {
		id, err := identity.SessionIDFromBytes(b)
		if err != nil || slot.Hash(id.HashSlot()) != h {
			c.counts.malformed.Add(1)
			continue
		}
		ids = append(ids, id)
	}
	return ids
}

// requeue marks sessions dirty again whose touch failed; the registry ignores those that ended.
func (c *Client) requeue(entries []entry) {
	c.counts.touchFailed.Add(int64(len(entries)))
	for _, e := range entries {
		c.sessions.Requeue(e.session)
	}
}
