package presence

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// deadProbes is how often an owner's subject must answer "no responders" until that life counts
// as dead; deadPause lies between two probes, so that a connection that changes servers is not
// taken for a death.
const (
	deadProbes = 3
	deadPause  = 100 * time.Millisecond
)

// Evict asks the owners of conflicting sessions to close them as replaced, and returns what came
// of each, in order. It returns when all are confirmed, or when ctx ends: bound it.
func (c *Client) Evict(ctx context.Context, conflicts []Conflict) []Outcome {
	out := make([]Outcome, len(conflicts))
	owners := map[leader][]int{}
	for i, k := range conflicts {
		o := leader{k.Gateway, k.Boot}
		owners[o] = append(owners[o], i)
	}
	var wg sync.WaitGroup
	for o, members := range owners {
		wg.Go(func() { c.evictAt(ctx, o, conflicts, members, out) }) // each writes its own members only
	}
	wg.Wait()
	return out
}

// evictAt asks one owner until it answered for all members, is dead, or ctx ends.
func (c *Client) evictAt(ctx context.Context, owner leader, conflicts []Conflict, members []int, out []Outcome) {
	silent := 0
	for {
		results, err := c.askOwner(ctx, owner, conflicts, members)
		switch {
		case err == nil:
			silent = 0
			if members = settleEvict(results, members, out); len(members) == 0 {
				return
			}
		case errors.Is(err, nats.ErrNoResponders):
			if silent++; silent >= deadProbes {
				for _, m := range members {
					out[m] = Dead
				}
				return
			}
		default:
			silent = 0
		}
		t := time.NewTimer(deadPause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// settleEvict notes the confirmed members and returns the others.
func settleEvict(results []wirepb.ActionResult, members []int, out []Outcome) []int {
	var open []int
	for i, m := range members {
		switch results[i] {
		case wirepb.ActionResult_ACTION_RESULT_DONE:
			out[m] = Closed
		case wirepb.ActionResult_ACTION_RESULT_GONE:
			out[m] = Gone
		default:
			open = append(open, m)
		}
	}
	return open
}

func (c *Client) askOwner(ctx context.Context, owner leader, conflicts []Conflict, members []int) ([]wirepb.ActionResult, error) {
	end := c.deadline(ctx)
	req := &wirepb.OwnerAction{
		GatewayId: owner.node, BootId: owner.boot, Kind: wirepb.ActionKind_ACTION_KIND_REPLACE,
		DeadlineMs: end.UnixMilli(),
	}
	for _, m := range members {
		k := &conflicts[m]
		req.Sessions = append(req.Sessions, &wirepb.Address{Uid: string(k.UID), SessionId: k.Session[:], OwnerSeq: k.OwnerSeq})
	}
	data, err := req.MarshalVT()
	if err != nil {
		return nil, err
	}
	var msg *nats.Msg
	if msg, err = c.request(ctx, subject.Owner(owner.node, owner.boot, subject.OwnerAction), data, end); err != nil {
		return nil, err
	}
	var reply wirepb.OwnerActionReply
	if err := reply.UnmarshalVT(msg.Data); err != nil || len(reply.Results) != len(members) {
		c.counts.malformed.Add(1)
		return nil, errMalformed
	}
	return reply.Results, nil
}
