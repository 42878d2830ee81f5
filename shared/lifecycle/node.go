package lifecycle

import (
	"fmt"
	"time"

	"github.com/switchyard-io/switchyard/shared/identity"
)

// The services, as beacons, micro and logs name them.
const (
	Gateway     = "gateway"
	Authority   = "authority"
	Ticketing   = "ticketing"
	Worldrouter = "worldrouter"
)

// Version is the suite's version, in semantic form. Builds set it with
// -ldflags "-X github.com/switchyard-io/switchyard/shared/lifecycle.Version=1.2.3".
var Version = "0.1.0-dev"

// Node is one life of one service instance.
type Node struct {
	Service   string
	ID        string // stable over restarts when configured, [A-Za-z0-9_-]{1,64}
	Boot      string // this life only
	Version   string
	StartedAt time.Time
}

// NewNode begins a life now. An empty id is replaced by identity.DefaultNodeID().
func NewNode(service, id string) Node {
	if id == "" {
		id = identity.DefaultNodeID()
	}
	return Node{Service: service, ID: id, Boot: identity.NewBootID(), Version: Version, StartedAt: time.Now()}
}

// Validate reports an id, service or boot that cannot stand in a subject. Run calls it before Start.
func (n Node) Validate() error {
	for _, f := range []struct{ name, value string }{{"service", n.Service}, {"node id", n.ID}, {"boot id", n.Boot}} {
		if !identity.ValidNode(f.value) {
			return fmt.Errorf("%w: %s", identity.ErrInvalid, f.name)
		}
	}
	return nil
}
