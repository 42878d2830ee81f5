package gateway

import (
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/membership"
)

// comebacks hears in the beacons of the authority which of its lives had taken this gateway for gone
// and dropped its routes, though it was only not heard. Such a life is told everything again, each
// time that it says so. Used from the tracker's goroutine only.
type comebacks struct {
	node  lifecycle.Node
	again func(node, boot string)
	heard map[[2]string]uint64 // latest number by authority node and boot; no more than the tracker knows
}

func (c *comebacks) event(ev membership.Event) {
	if ev.Node.Service != lifecycle.Authority {
		return
	}
	life := [2]string{ev.Node.ID, ev.Node.Boot}
	switch ev.Kind {
	case membership.Left:
		delete(c.heard, life)
	case membership.Beaconed:
		for _, k := range ev.Beacon.Comebacks {
			if k.GatewayId == c.node.ID && k.BootId == c.node.Boot && k.Number != c.heard[life] {
				c.heard[life] = k.Number
				c.again(ev.Node.ID, ev.Node.Boot)
			}
		}
	case membership.Joined:
	}
}
