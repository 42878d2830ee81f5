package lifecycle

import (
	"context"
	"log/slog"
	"net/http"
	"time"
)

// AdminConfig configures an admin listener.
type AdminConfig struct {
	// Listen is host:port; port 0 takes a free one. Not loopback: needs a Token.
	Listen string
	// Token is what POST /drain and /undrain ask for, at least MinTokenBytes; empty refuses them all.
	Token string
	// DrainTimeout bounds a drain, by POST and by signal. 0: DefaultDrainTimeout.
	DrainTimeout time.Duration
}

// MinTokenBytes is the shortest admin token.
const MinTokenBytes = 32

// DefaultDrainTimeout bounds a drain where the configuration says nothing.
const DefaultDrainTimeout = 30 * time.Second

// Admin is the HTTP server for /livez, /readyz, /version, /metrics, /drain and /undrain of one or
// several services.
type Admin struct{}

// NewAdmin checks the configuration. A listener that is not on loopback is refused without a
// token; so is a short token.
func NewAdmin(cfg AdminConfig, metrics http.Handler, log *slog.Logger, services ...Service) (*Admin, error) {
	panic("body follows")
}

// Handler serves the routes without a listener.
func (a *Admin) Handler() http.Handler { panic("body follows") }

// Start listens and serves.
func (a *Admin) Start() error { panic("body follows") }

// Addr is the address listened on, host:port, after Start.
func (a *Admin) Addr() string { panic("body follows") }

// Stop ends the server and a running drain, bounded by ctx.
func (a *Admin) Stop(ctx context.Context) error { panic("body follows") }
