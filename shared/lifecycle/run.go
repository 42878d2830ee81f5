package lifecycle

import (
	"context"
	"log/slog"
	"net/http"
)

// Plan is what Run runs.
type Plan struct {
	Admin AdminConfig
	// Metrics serves /metrics. nil: not served.
	Metrics http.Handler
	Log     *slog.Logger
	// Services are started in this order, drained and stopped in the reverse: what others need
	// comes first. Neighbours of the same service are started, drained and stopped together.
	Services []Service
	// OnReady is called once, when every service is ready, with the admin listener's address. May be nil.
	OnReady func(adminAddr string)
}

// Run starts the services, serves the admin listener until ctx ends or a service fails, then
// drains (bounded by Admin.DrainTimeout) and stops all. It returns nil after a clean end by ctx.
func Run(ctx context.Context, p Plan) error { panic("body follows") }
