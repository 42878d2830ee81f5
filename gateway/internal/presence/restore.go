package presence

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// restoreState is what the restore worker knows of each hash slot.
type restoreState struct {
	mu    sync.Mutex
	slots [slot.Count]slotReport

	reconnects uint64 // of the worker alone
}

type slotReport struct {
	told     slot.Target // the term that has acknowledged this gateway's whole report
	busy     bool
	again    bool // what is being told may be lost already
	failures int
	next     time.Time // not before
}

// runRestore compares, at each change of the slot table and every ReconcileInterval, the terms
// that were told with those that lead, and reports to each new one until ctx ends. Every gateway
// reports every slot, with nothing in it too: the leader waits for that (I7).
func (c *Client) runRestore(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-c.wake:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		c.noticeReconnect()
		work, wait := c.dueReports(time.Now())
		for to, targets := range work {
			wg.Go(func() {
				c.report(ctx, to, targets)
				c.SlotChanged() // a newer term may have begun meanwhile
			})
		}
		timer.Reset(wait)
	}
}

// noticeReconnect has everything told again after the connection was away.
func (c *Client) noticeReconnect() {
	if c.cfg.Reconnects == nil {
		return
	}
	n := c.cfg.Reconnects()
	if n == c.restore.reconnects {
		return
	}
	c.restore.reconnects = n
	c.restore.mu.Lock()
	defer c.restore.mu.Unlock()
	for h := range c.restore.slots {
		c.restore.slots[h].forget()
	}
}

// forget has the slot told again. A report that is on its way does not count either: the leader may
// have taken it before it dropped what it had.
func (r *slotReport) forget() {
	r.told, r.again = slot.Target{}, r.busy
}

// ReportAgain tells an authority life everything again, in each slot that it leads: it had taken
// this gateway for gone, and dropped its routes. It does not wait for the report.
func (c *Client) ReportAgain(node, boot string) {
	to := leader{node, boot}
	c.restore.mu.Lock()
	for h := range slot.Count {
		r := &c.restore.slots[h]
		t, ok := c.target(slot.Hash(h))
		if r.busy || leaderOf(r.told) == to || ok && leaderOf(t) == to {
			r.forget()
			r.failures, r.next = 0, time.Time{} // what it refused from a gateway that was gone
		}
	}
	c.restore.mu.Unlock()
	c.SlotChanged()
}

// forget has a term told again that was told and yet lacks a route: it took this gateway for gone,
// or let its routes expire.
func (c *Client) forget(t slot.Target) {
	c.restore.mu.Lock()
	r := &c.restore.slots[t.Hash]
	lost := r.told.SameFence(t)
	if lost {
		r.forget()
	}
	c.restore.mu.Unlock()
	if lost {
		c.SlotChanged()
	}
}

// dueReports claims the slots whose leader has not been told, and says when to look again.
func (c *Client) dueReports(now time.Time) (map[leader][]slot.Target, time.Duration) {
	work := map[leader][]slot.Target{}
	wait := c.cfg.ReconcileInterval
	c.restore.mu.Lock()
	defer c.restore.mu.Unlock()
	for h := range slot.Count {
		t, ok := c.target(slot.Hash(h))
		r := &c.restore.slots[h]
		if !ok || r.busy || t.SameFence(r.told) {
			continue
		}
		if d := r.next.Sub(now); d > 0 {
			wait = min(wait, d)
			continue
		}
		r.busy, r.again = true, false
		work[leaderOf(t)] = append(work[leaderOf(t)], t)
	}
	return work, wait
}

// A report that failed fastReports times in a row is repeated slowReports times less often: it
// is a whole slot's sessions, and no rebuild is in a hurry for it any more.
const (
	fastReports = 10
	slowReports = 4
)

// settle ends a report. One that failed is tried again after a pause.
func (c *Client) settle(t slot.Target, ok bool) {
	c.restore.mu.Lock()
	defer c.restore.mu.Unlock()
	r := &c.restore.slots[t.Hash]
	r.busy = false
	if ok {
		r.failures, r.next = 0, time.Time{}
		if !r.again {
			r.told = t
		}
		c.counts.restoreComplete.Add(1)
		return
	}
	c.counts.restoreFailed.Add(1)
	r.failures++
	pause := c.backoff(r.failures)
	if r.failures > fastReports {
		pause *= slowReports
	}
	r.next = time.Now().Add(pause)
}

// Reported reports whether the current leader of h has acknowledged all that this gateway holds
// there.
func (c *Client) Reported(h slot.Hash) bool {
	t, ok := c.target(h)
	c.restore.mu.Lock()
	defer c.restore.mu.Unlock()
	return ok && t.SameFence(c.restore.slots[h].told)
}

// report tells one leader all sessions in the given slots, in requests of at most BatchSessions,
// one after the other: the one that says "complete" goes out only when all before it were taken.
// The sessions are read after the target was known, so one that becomes active later learns of the
// new term in Activated.
func (c *Client) report(ctx context.Context, to leader, targets []slot.Target) {
	var (
		pending []*restorePart
		size    int
		records []Record
	)
	failed := map[slot.Hash]bool{}
	flush := func() {
		if !c.sendParts(ctx, to, pending, failed) {
			for _, t := range targets { // it does not answer: all of it is tried again later
				failed[t.Hash] = true
			}
		}
		pending, size = nil, 0
	}
	for _, t := range targets {
		records = c.sessions.InSlot(records[:0], t.Hash)
		for rest := records; !failed[t.Hash]; {
			n := min(len(rest), c.cfg.BatchSessions-size)
			pending = append(pending, &restorePart{target: t, records: slices.Clone(rest[:n]), complete: n == len(rest)})
			size += n
			rest = rest[n:]
			last := pending[len(pending)-1].complete
			if size >= c.cfg.BatchSessions {
				flush()
			}
			if last {
				break
			}
		}
	}
	flush()
	for _, t := range targets {
		c.settle(t, !failed[t.Hash])
	}
}

// restorePart is one slot's share of a restore request.
type restorePart struct {
	target   slot.Target
	records  []Record
	complete bool
}

// sendParts sends one request and closes what lost; it adds the slots that were not taken to
// failed. It reports whether the leader answered.
func (c *Client) sendParts(ctx context.Context, to leader, parts []*restorePart, failed map[slot.Hash]bool) bool {
	parts = slices.DeleteFunc(parts, func(p *restorePart) bool { return failed[p.target.Hash] })
	if len(parts) == 0 {
		return true
	}
	results, err := c.sendRestore(ctx, to, parts)
	if err != nil {
		for _, p := range parts {
			c.doubt(p.target)
			failed[p.target.Hash] = true
		}
		return false
	}
	for i, r := range results {
		h := parts[i].target.Hash
		if r.Status != wirepb.Status_STATUS_OK {
			c.redirected(h, r.Status, r.Current)
			failed[h] = true
			continue
		}
		c.counts.restored.Add(int64(len(parts[i].records)))
		for _, id := range c.ids(h, r.Close) {
			c.counts.restoreClosed.Add(1)
			c.sessions.Replaced(id)
		}
	}
	return true
}

func (c *Client) sendRestore(ctx context.Context, to leader, parts []*restorePart) ([]*wirepb.RestoreGroupResult, error) {
	end := c.deadline(ctx)
	req := &wirepb.RestoreRequest{GatewayId: c.cfg.Gateway, BootId: c.cfg.Boot, DeadlineMs: end.UnixMilli()}
	for _, p := range parts {
		g := &wirepb.RestoreGroup{Target: wire.Target(p.target), Complete: p.complete}
		for _, r := range p.records {
			g.Routes = append(g.Routes, c.route(r))
		}
		req.Groups = append(req.Groups, g)
	}
	data, err := req.MarshalVT()
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "internal error", err)
	}
	msg, err := c.request(ctx, subject.Authority(to.node, to.boot, subject.AuthorityRestore), data, end)
	if err != nil {
		return nil, err
	}
	var reply wirepb.RestoreReply
	if err := reply.UnmarshalVT(msg.Data); err != nil || len(reply.Groups) != len(parts) {
		c.counts.malformed.Add(1)
		return nil, errMalformed
	}
	return reply.Groups, nil
}

// restoreSessions registers single sessions again that a leader did not know. What fails is
// marked dirty, so that the next touch finds it missing again. It reports whether all were taken.
func (c *Client) restoreSessions(ctx context.Context, ids []identity.SessionID) bool {
	parts := map[leader][]*restorePart{}
	ok := true
	for _, id := range ids {
		r, active := c.sessions.Active(id)
		if !active {
			continue // it ended meanwhile, and its unregister is on its way
		}
		t, known := c.target(slot.Hash(id.HashSlot()))
		if !known {
			ok = false
			c.sessions.Requeue(id)
			continue
		}
		parts[leaderOf(t)] = append(parts[leaderOf(t)], &restorePart{target: t, records: []Record{r}})
	}
	for to, all := range parts {
		for some := range slices.Chunk(all, c.cfg.BatchSessions) {
			failed := map[slot.Hash]bool{}
			c.sendParts(ctx, to, some, failed)
			for _, p := range some {
				if failed[p.target.Hash] {
					ok = false
					c.sessions.Requeue(p.records[0].Session)
				}
			}
		}
	}
	return ok
}

// announce registers one active session again at the leader of the day, until it is taken, it ends,
// or ctx does.
func (c *Client) announce(ctx context.Context, id identity.SessionID) error {
	for attempt := range c.cfg.MaxAttempts {
		if attempt > 0 && !c.pause(ctx, attempt) {
			break
		}
		if c.restoreSessions(ctx, []identity.SessionID{id}) {
			return nil
		}
	}
	return fault.ErrUnavailable
}
