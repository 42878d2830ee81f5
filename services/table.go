package services

import (
	"fmt"
	"log/slog"

	"github.com/switchyard-io/switchyard/authority"
	"github.com/switchyard-io/switchyard/gateway"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/telemetry"
	"github.com/switchyard-io/switchyard/ticketing"
	"github.com/switchyard-io/switchyard/worldrouter"
)

// row is a service of the suite: how its instances are made, and which services they need to be
// of use. What is needed is started before and stopped after.
type row struct {
	service string
	build   func(*site) error
	needs   []string
}

// table is the suite, in the order of starting.
var table = []row{
	{lifecycle.Authority, (*site).buildAuthority, nil},
	{lifecycle.Ticketing, (*site).buildTicketing, nil},
	{lifecycle.Worldrouter, (*site).buildWorldrouter, nil},
	{lifecycle.Gateway, (*site).buildGateways, []string{lifecycle.Authority, lifecycle.Ticketing}},
}

// site is where the services are put together: what they are made from, and what was made.
type site struct {
	settings Settings
	token    string
	nats     natsconn.Config
	tel      *telemetry.Telemetry
	log      *slog.Logger

	services  []lifecycle.Service
	gateways  []*gateway.Gateway
	ticketing *ticketing.Ticketing
}

// build makes every service of the table and starts none.
func (s *site) build() error {
	for _, r := range table {
		if err := r.build(s); err != nil {
			return fmt.Errorf("%s: %w", r.service, err)
		}
	}
	return nil
}

// node begins the life of an instance, with the telemetry and the logger that name it.
func (s *site) node(service, id string) (lifecycle.Node, *telemetry.Telemetry, *slog.Logger, error) {
	env := lifecycle.Env{Service: service, Log: s.log, Telemetry: s.tel, AdminToken: s.token}
	n, tel, err := env.Node(id)
	return n, tel, s.log.With("service", n.Service, "node", n.ID), err
}

func (s *site) buildAuthority() error {
	cfg := s.settings.Authority
	node, tel, log, err := s.node(lifecycle.Authority, cfg.ID)
	if err != nil {
		return err
	}
	a, err := authority.New(cfg, node, s.nats, tel, log)
	if err != nil {
		return err
	}
	s.services = append(s.services, a)
	return nil
}

func (s *site) buildTicketing() error {
	cfg := s.settings.Ticketing
	cfg.AdminToken = s.token
	node, tel, log, err := s.node(lifecycle.Ticketing, cfg.ID)
	if err != nil {
		return err
	}
	if s.ticketing, err = ticketing.New(cfg, node, s.nats, tel, log); err != nil {
		return err
	}
	s.services = append(s.services, s.ticketing)
	return nil
}

func (s *site) buildWorldrouter() error {
	cfg := s.settings.Worldrouter
	node, tel, log, err := s.node(lifecycle.Worldrouter, cfg.ID)
	if err != nil {
		return err
	}
	w, err := worldrouter.New(cfg, node, s.nats, tel, log)
	if err != nil {
		return err
	}
	s.services = append(s.services, w)
	return nil
}

// buildGateways makes gateways "<id>-1", "<id>-2", ... on ports that follow each other.
func (s *site) buildGateways() error {
	base := s.settings.Gateway.ID
	if base == "" {
		base = identity.DefaultNodeID()
	}
	origins, err := s.origins()
	if err != nil {
		return err
	}
	for i := range s.settings.Gateways {
		cfg := s.settings.Gateway
		cfg.AllowedOrigins = origins
		cfg.ID = fmt.Sprintf("%s-%d", base, i+1)
		if cfg.Listen, err = nextPort(cfg.Listen, i); err != nil {
			return err
		}
		if cfg.TCPListen, err = nextPort(cfg.TCPListen, i); err != nil {
			return err
		}
		node, tel, log, err := s.node(lifecycle.Gateway, cfg.ID)
		if err != nil {
			return err
		}
		g, err := gateway.New(cfg, node, s.nats, tel, log)
		if err != nil {
			return err
		}
		s.gateways = append(s.gateways, g)
		s.services = append(s.services, g)
	}
	return nil
}
