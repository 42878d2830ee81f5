package services

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/switchyard-io/switchyard/gateway"
	"github.com/switchyard-io/switchyard/gateway/web"
	"github.com/switchyard-io/switchyard/shared/natsconn"
)

// demo is the demo page: a backend like any other, with connections of its own.
type demo struct{ conns *natsconn.Conns }

// openDemo puts the page on every gateway. The gateways must have started.
func (s *site) openDemo(ctx context.Context) (*demo, error) {
	conns, err := natsconn.Open(ctx, s.nats, "switchyard-demo", s.log)
	if err != nil {
		return nil, err
	}
	var urls []string
	for _, g := range s.gateways {
		urls = append(urls, g.URL()+gateway.ConnectPath)
	}
	pages, err := web.Handler(conns.Data, urls)
	if err != nil {
		conns.Close()
		return nil, err
	}
	for _, g := range s.gateways {
		g.SetPages(pages)
	}
	return &demo{conns: conns}, nil
}

// demoURL is where a person finds the page. The gateways must have started.
// close ends the page's connections; a nil demo has none.
func (d *demo) close() {
	if d != nil {
		d.conns.Close()
	}
}

// demoURL is where a person finds the page. The gateways must have started.
func (s *site) demoURL() string { return "http" + strings.TrimPrefix(s.gateways[0].URL(), "ws") + "/" }

// origins are those that every gateway lets in: the configured ones, and the demo pages'.
func (s *site) origins() ([]string, error) {
	cfg := s.settings.Gateway
	if !s.settings.Demo {
		return cfg.AllowedOrigins, nil
	}
	pages, err := demoOrigins(cfg.Listen, s.settings.Gateways, len(cfg.AllowedOrigins) > 0)
	return slices.Concat(cfg.AllowedOrigins, pages), err
}

// demoOrigins are the pages of all gateways: a page may connect to the other gateways too. Unless
// the addresses are known to be a person's own machine it is nil, which leaves each gateway to its
// own host; but where a list is configured the own host does not count, and they are named as far
// as listen tells them.
func demoOrigins(listen string, gateways int, listed bool) ([]string, error) {
	var out []string
	for i := range gateways {
		addr, err := nextPort(listen, i)
		if err != nil {
			return nil, err
		}
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		ip, _ := netip.ParseAddr(host) // a name is the zero address, no loopback
		local := host == "localhost" || ip.IsLoopback()
		if port == "0" || !local && !listed {
			return nil, nil
		}
		names := []string{"127.0.0.1", "localhost", "::1"}
		if !local && host != "" && !ip.IsUnspecified() {
			names = []string{host}
		}
		for _, name := range names {
			out = append(out, "http://"+net.JoinHostPort(name, port))
		}
	}
	return out, nil
}
