package lifecycle

import (
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// MicroService is a NATS micro service that can tell whether it still serves.
type MicroService struct{ micro.Service }

// Micro makes the node visible to `nats micro ls|info|stats` and ready for endpoints. The queue
// group of endpoints is the service's name, unless an endpoint names another or turns it off
// (micro.WithEndpointQueueGroupDisabled, for what is addressed to one node or slot). One a
// connection.
func Micro(nc *nats.Conn, node Node, description string) (*MicroService, error) {
	panic("body follows")
}

// Check is nil while the service serves: a line of the owner's Check, so that a micro service that
// stopped by itself turns /readyz red.
func (m *MicroService) Check() error { panic("body follows") }
