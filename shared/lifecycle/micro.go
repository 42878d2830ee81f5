package lifecycle

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// ErrMicroStopped is what Check says when the micro service serves no more.
var ErrMicroStopped = errors.New("the NATS micro service has stopped")

// MicroService is a NATS micro service that can tell whether it still serves.
type MicroService struct {
	micro.Service
	nc *nats.Conn
}

// Micro makes the node visible to `nats micro ls|info|stats` and ready for endpoints. The queue
// group of endpoints is the service's name, unless an endpoint names another or turns it off
// (micro.WithEndpointQueueGroupDisabled, for what is addressed to one node or slot). Stop it before
// the connection closes.
func Micro(nc *nats.Conn, node Node, description string) (*MicroService, error) {
	s, err := micro.AddService(nc, micro.Config{
		Name:        node.Service,
		Version:     node.Version,
		Description: description,
		QueueGroup:  node.Service,
		Metadata:    map[string]string{"node": node.ID, "boot": node.Boot},
	})
	if err != nil {
		return nil, fmt.Errorf("micro service %s: %w", node.Service, err)
	}
	return &MicroService{Service: s, nc: nc}, nil
}

// Check is nil while the service serves: a line of the owner's Check, so that a micro service that
// stopped by itself turns /readyz red.
func (m *MicroService) Check() error {
	// A handler that somebody set on the connection later keeps micro from seeing its end.
	if m.Stopped() || m.nc.IsClosed() {
		return ErrMicroStopped
	}
	return nil
}
