// Command ticketing runs one instance of the ticketing service against the NATS of NATS_URL.
package main

import (
	"context"

	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/ticketing"
)

func main() {
	var cfg ticketing.Config
	var nats natsconn.Config
	lifecycle.Main(lifecycle.Ticketing, func(_ context.Context, env lifecycle.Env) (lifecycle.Service, lifecycle.AdminConfig, error) {
		admin := lifecycle.AdminConfig{Listen: cfg.AdminListen, Token: env.AdminToken}
		node, tel, err := env.Node(cfg.ID)
		if err != nil {
			return nil, admin, err
		}
		cfg.AdminToken = env.AdminToken
		t, err := ticketing.New(cfg, node, nats, tel, env.Log)
		return t, admin, err
	}, &cfg, &nats)
}
