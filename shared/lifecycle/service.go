package lifecycle

import "context"

// Service is what the suite runs: one instance of gateway, authority, ticketing or worldrouter.
type Service interface {
	// Node names the instance and its life.
	Node() Node
	// Start brings the service up and returns when it serves or ctx ends. It may return before
	// the service is ready (Check says so): leases can take a moment. After an error, Stop is
	// still called.
	Start(ctx context.Context) error
	// Check is nil when the service is ready, else the reason that /readyz shows. It must not block.
	Check() error
	// Drain makes it unready, hands over what it holds and returns when that is done or ctx ends.
	// A second call while draining waits for the same end.
	Drain(ctx context.Context) error
	// Undrain takes a Drain back, whose context has been cancelled before: ready again.
	Undrain(ctx context.Context) error
	// Stop ends everything that runs, bounded by ctx. After it, nothing of the service runs. It may
	// come without a Start before it.
	Stop(ctx context.Context) error
	// Failed delivers the error that ends the service by itself, at most one.
	Failed() <-chan error
}
