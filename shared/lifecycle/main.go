package lifecycle

import (
	"context"
	"log/slog"

	"github.com/switchyard-io/switchyard/shared/telemetry"
)

// Env is what Main gives to a service's constructor.
type Env struct {
	Service    string
	Log        *slog.Logger
	Telemetry  *telemetry.Telemetry
	AdminToken string // SWITCHYARD_ADMIN_TOKEN, may be empty
}

// Node begins the life of an instance: its Node (checked), and the telemetry view that labels its
// metrics.
func (e Env) Node(id string) (Node, *telemetry.Telemetry, error) {
	n := NewNode(e.Service, id)
	if err := n.Validate(); err != nil {
		return n, nil, err
	}
	t, err := e.Telemetry.ForNode(n.Service, n.ID)
	return n, t, err
}

// Build makes the service of a process. Return AdminConfig{Listen: cfg.AdminListen, Token: env.AdminToken}.
type Build func(ctx context.Context, env Env) (Service, AdminConfig, error)

// Main is the body of cmd/<service>/main.go; it does not return. The specs are pointers to
// envconfig structs: --help prints them, and they are filled from the environment before build is
// called. Logs go to stderr; SIGINT and SIGTERM drain and stop, a second one kills. Exit codes: 0
// clean, 1 failed, 2 bad configuration or arguments.
//
//	func main() {
//		var cfg gateway.Config
//		var nats natsconn.Config
//		lifecycle.Main(lifecycle.Gateway, func(ctx context.Context, env lifecycle.Env) (lifecycle.Service, lifecycle.AdminConfig, error) {
//			...
//		}, &cfg, &nats)
//	}
func Main(name string, build Build, specs ...any) { panic("body follows") }
