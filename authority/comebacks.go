package authority

import (
	"sync"
	"time"

	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// comebackKept is how long a comeback is in the beacons: a gateway that hears none of so many is
// taken for gone again before.
const comebackKept = 15 * time.Second

// comebacks are the gateway lives that were heard again after this node may have taken them for gone
// and dropped their routes. Nothing changes at such a gateway when that happens (its beacons may
// have been lost between two NATS servers), so it cannot know: the beacons tell it, and it reports
// all that it holds once more (I7). At most one entry for each life that the tracker knows.
type comebacks struct {
	mu     sync.Mutex
	number uint64
	back   map[directory.Owner]comeback
}

type comeback struct {
	number uint64
	until  time.Time
}

// heard notes a life that was heard for the first time, or again. The first beacon of a life has
// sequence 1: then it has reported nothing that could have been dropped. It reports whether the
// life is to be told, in the beacons that go out anyway: many gateways come back at once.
func (c *comebacks) heard(o directory.Owner, sequence uint64, now time.Time) bool {
	if sequence <= 1 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.back == nil {
		c.back = map[directory.Owner]comeback{}
	}
	c.number++
	c.back[o] = comeback{c.number, now.Add(comebackKept)}
	return true
}

// left forgets a life that is gone again.
func (c *comebacks) left(o directory.Owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.back, o)
}

// fill adds what the gateways must hear to a beacon.
func (c *comebacks) fill(b *wirepb.Beacon, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for o, k := range c.back {
		if now.After(k.until) {
			delete(c.back, o)
			continue
		}
		b.Comebacks = append(b.Comebacks, &wirepb.Comeback{GatewayId: o.Gateway, BootId: o.Boot, Number: k.number})
	}
}
