// Command worldrouter runs one worldrouter node against the NATS servers in NATS_URL.
package main

import (
	"context"

	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/worldrouter"
)

func main() {
	var cfg worldrouter.Config
	var nats natsconn.Config
	lifecycle.Main(lifecycle.Worldrouter, func(_ context.Context, env lifecycle.Env) (lifecycle.Service, lifecycle.AdminConfig, error) {
		admin := lifecycle.AdminConfig{Listen: cfg.AdminListen, Token: env.AdminToken}
		node, tel, err := env.Node(cfg.ID)
		if err != nil {
			return nil, admin, err
		}
		s, err := worldrouter.New(cfg, node, nats, tel, env.Log)
		return s, admin, err
	}, &cfg, &nats)
}
