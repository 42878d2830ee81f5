package outside

import (
	"context"

	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/slot"
)

// slotTable serves sy.v1.slots from this node's view.
func (o *Outside) slotTable(_ context.Context, r *request) {
	if err := api.Decode(r.data, &api.EmptyRequest{}); err != nil {
		o.fail(r, err)
		return
	}
	snap := o.cluster.Table.Snapshot()
	reply := api.SlotsReply{Slots: make([]api.Slot, 0, snap.Layout().Logical)}
	for id := range slot.ID(snap.Layout().Logical) {
		e := snap.Entry(id)
		s := api.Slot{SlotID: id, LeaderNode: e.Leader.Node, LeaderBoot: e.Leader.Boot, Term: e.Term,
			ConfigEpoch: e.ConfigEpoch, State: api.SlotNone}
		for _, h := range snap.Layout().Hashes(id) {
			s.HashSlots = append(s.HashSlots, int(h))
		}
		if e.Led() {
			load, known := o.cluster.Table.Load(id)
			s.State, s.Routes = api.SlotActive, load.Routes
			if load.Rebuilding || !known {
				s.State = api.SlotRebuilding
			}
		}
		reply.Slots = append(reply.Slots, s)
	}
	o.answer(r, &reply)
}

// nodes serves sy.v1.nodes from this node's view.
func (o *Outside) nodes(_ context.Context, r *request) {
	if err := api.Decode(r.data, &api.EmptyRequest{}); err != nil {
		o.fail(r, err)
		return
	}
	reply := api.NodesReply{Nodes: []api.Node{}}
	for _, n := range o.cluster.Tracker.Nodes() {
		node := api.Node{NodeID: n.ID, Service: n.Service, BootID: n.Boot, State: n.State, Version: n.Version, StartedAt: api.At(n.StartedAt)}
		if n.Service == lifecycle.Gateway {
			node.Sessions = &n.Sessions
		}
		reply.Nodes = append(reply.Nodes, node)
	}
	o.answer(r, &reply)
}
