package authority_test

import (
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// TestI7_AGatewayThatComesBackIsAskedForAllOfIt: one whose beacons were missing until its routes went
// is named in the authority's beacons when it is heard again, each time by another number.
func TestI7_AGatewayThatComesBackIsAskedForAllOfIt(t *testing.T) {
	s := ready(t)
	node := lifecycle.NewNode(lifecycle.Gateway, "g9")
	var asked atomic.Uint64
	sub, err := s.nc.Subscribe(subject.BeaconAll, func(m *nats.Msg) {
		var b wirepb.Beacon
		if b.UnmarshalVT(m.Data) != nil {
			return
		}
		for _, c := range b.Comebacks {
			if c.GatewayId == node.ID && c.BootId == node.Boot {
				asked.Store(c.Number)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	var sequence uint64
	beacon := func() {
		sequence++
		data, err := (&wirepb.Beacon{Service: node.Service, NodeId: node.ID, BootId: node.Boot, State: lifecycle.Ready, Sequence: sequence}).MarshalVT()
		if err == nil {
			err = s.nc.Publish(subject.Beacon(node.Service, node.ID, node.Boot), data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	known := func() bool {
		for _, n := range ask[api.NodesReply](s, subject.Nodes, "{}").Nodes {
			if n.BootID == node.Boot {
				return true
			}
		}
		return false
	}
	beacon()
	natstest.Eventually(t, patience, "the gateway is known", known)
	if asked.Load() != 0 {
		t.Fatal("a gateway that just started is asked")
	}
	g := &owner{s: s, node: node, sessions: map[identity.SessionID]*session{}}
	g.login(alice, "phone")
	for range 2 {
		natstest.Eventually(t, patience, "the gateway is gone", func() bool { return !known() })
		if p := ask[api.PresenceReply](s, subject.Presence, api.PresenceRequest{Users: []identity.UID{alice}}); p.Users[0].Status == api.Online {
			t.Fatalf("its route is there: %+v", p)
		}
		before := asked.Load()
		beacon()
		natstest.Eventually(t, patience, "it is asked for its routes", func() bool { return asked.Load() > before })
	}
}
