package presence

import (
	"time"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/wire"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// learnWire keeps the target of an answer about h; one about another slot, or malformed, is let go.
func (c *Client) learnWire(h slot.Hash, p *wirepb.Target) {
	t, err := wire.ParseTarget(p)
	if err != nil || t.Hash != h || !identity.ValidNode(t.LeaderNode) || !identity.ValidNode(t.LeaderBoot) {
		return
	}
	c.learn(t)
}

// route is the wire form of a session of this gateway.
func (c *Client) route(r Record) *wirepb.Route {
	level := wirepb.Level_LEVEL_SLAVE
	if r.Device.Level == identity.LevelMaster {
		level = wirepb.Level_LEVEL_MASTER
	}
	return &wirepb.Route{
		Uid: string(r.UID), GatewayId: c.cfg.Gateway, BootId: c.cfg.Boot, SessionId: r.Session[:],
		DeviceId: r.Device.ID, DeviceFlag: r.Device.Flag, DeviceLevel: level, Listener: r.Listener,
		OwnerSeq: r.OwnerSeq, ConnectedAtMs: r.ConnectedAt.UnixMilli(), LastActiveMs: milli(r.LastActive),
	}
}

func milli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// conflicts reads the routes of an answer; malformed ones are counted and let go.
func (c *Client) conflicts(routes []*wirepb.Route) []Conflict {
	var out []Conflict
	for _, r := range routes {
		id, err := identity.SessionIDFromBytes(r.GetSessionId())
		if err != nil || !identity.ValidNode(r.GatewayId) || !identity.ValidNode(r.BootId) {
			c.counts.malformed.Add(1)
			continue
		}
		out = append(out, Conflict{
			UID: identity.UID(r.Uid), Gateway: r.GatewayId, Boot: r.BootId, Session: id, OwnerSeq: r.OwnerSeq,
		})
	}
	return out
}
