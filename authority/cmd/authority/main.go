// Command authority runs one authority node against the NATS servers in NATS_URL.
package main

import (
	"context"

	"github.com/switchyard-io/switchyard/authority"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/natsconn"
)

func main() {
	var cfg authority.Config
	var nats natsconn.Config
	lifecycle.Main(lifecycle.Authority, func(_ context.Context, env lifecycle.Env) (lifecycle.Service, lifecycle.AdminConfig, error) {
		admin := lifecycle.AdminConfig{Listen: cfg.AdminListen, Token: env.AdminToken}
		node, tel, err := env.Node(cfg.ID)
		if err != nil {
			return nil, admin, err
		}
		a, err := authority.New(cfg, node, nats, tel, env.Log)
		return a, admin, err
	}, &cfg, &nats)
}
