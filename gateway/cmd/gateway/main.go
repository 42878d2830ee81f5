// Command gateway runs one gateway against the NATS of NATS_URL.
package main

import (
	"context"
	"os"
	"runtime/debug"

	"github.com/switchyard-io/switchyard/gateway"
	"github.com/switchyard-io/switchyard/gateway/internal/memory"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/natsconn"
)

// gcPercent keeps the heap of a gateway close to what its idle sessions need: they are most of it,
// and collecting it often costs little.
const gcPercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	var cfg gateway.Config
	var nats natsconn.Config
	lifecycle.Main(lifecycle.Gateway, func(ctx context.Context, env lifecycle.Env) (lifecycle.Service, lifecycle.AdminConfig, error) {
		admin := lifecycle.AdminConfig{Listen: cfg.AdminListen, Token: env.AdminToken, DrainTimeout: cfg.DrainTimeout}
		node, tel, err := env.Node(cfg.ID)
		if err != nil {
			return nil, admin, err
		}
		go memory.Trim(ctx)
		g, err := gateway.New(cfg, node, nats, tel, env.Log)
		return g, admin, err
	}, &cfg, &nats)
}
