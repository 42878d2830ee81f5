package presence

import (
	"context"
	"errors"
	"time"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// errMalformed marks an answer that cannot be read or does not fit its request.
var errMalformed = errors.New("malformed answer")

// leader is one life of an authority node: where a batch goes.
type leader struct{ node, boot string }

func leaderOf(t slot.Target) leader { return leader{t.LeaderNode, t.LeaderBoot} }

// entry names one session in a batch of touches or unregisters.
type entry struct {
	uid        identity.UID
	session    identity.SessionID
	seq        uint64
	lastActive time.Time // touch only
}

func (e entry) slot() slot.Hash { return slot.Hash(e.session.HashSlot()) }

// batch is one request of touches or unregisters: groups by hash slot, all at one leader.
type batch struct {
	to      leader
	targets []slot.Target
	groups  [][]entry
	size    int
}

func (b *batch) add(t slot.Target, e entry) {
	if n := len(b.targets); n == 0 || b.targets[n-1] != t {
		b.targets = append(b.targets, t)
		b.groups = append(b.groups, nil)
	}
	last := len(b.groups) - 1
	b.groups[last] = append(b.groups[last], e)
	b.size++
}

// split sorts entries into batches of bounded size by leader. Those whose slot has no known
// leader come back as lost. Entries of one slot should be next to each other.
func (c *Client) split(entries []entry) (batches []*batch, lost []entry) {
	open := map[leader]*batch{}
	for _, e := range entries {
		t, ok := c.target(e.slot())
		if !ok {
			lost = append(lost, e)
			continue
		}
		to := leaderOf(t)
		b := open[to]
		if b == nil || b.size >= c.cfg.BatchSessions {
			b = &batch{to: to}
			open[to] = b
			batches = append(batches, b)
		}
		b.add(t, e)
	}
	return batches, lost
}

// send asks a batch's leader once, and returns one result a group.
func (c *Client) send(ctx context.Context, op subject.AuthorityOp, b *batch) ([]*wirepb.SessionGroupResult, error) {
	end := c.deadline(ctx)
	req := &wirepb.SessionBatch{GatewayId: c.cfg.Gateway, BootId: c.cfg.Boot, DeadlineMs: end.UnixMilli()}
	for i, g := range b.groups {
		group := &wirepb.SessionGroup{Target: wire.Target(b.targets[i]), Sessions: make([]*wirepb.SessionSeq, len(g))}
		for j := range g {
			group.Sessions[j] = &wirepb.SessionSeq{
				SessionId: g[j].session[:], OwnerSeq: g[j].seq, LastActiveMs: milli(g[j].lastActive), Uid: string(g[j].uid),
			}
		}
		req.Groups = append(req.Groups, group)
	}
	data, err := req.MarshalVT()
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "internal error", err)
	}
	msg, err := c.request(ctx, subject.Authority(b.to.node, b.to.boot, op), data, end)
	if err != nil {
		for _, t := range b.targets {
			c.doubt(t)
		}
		return nil, err
	}
	var reply wirepb.SessionBatchReply
	if err := reply.UnmarshalVT(msg.Data); err != nil || len(reply.Groups) != len(b.groups) {
		c.counts.malformed.Add(1)
		return nil, errMalformed
	}
	return reply.Groups, nil
}

// redirected learns from a group result, if it is about leadership.
func (c *Client) redirected(h slot.Hash, s wirepb.Status, current *wirepb.Target) {
	if s == wirepb.Status_STATUS_STALE_TARGET || s == wirepb.Status_STATUS_NOT_LEADER {
		c.counts.stale.Add(1)
		c.learnWire(h, current)
	}
}
