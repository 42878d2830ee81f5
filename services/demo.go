package services

import (
	"context"
	"net"
	"net/netip"

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

// close ends the page's connections; a nil demo has none.
func (d *demo) close() {
	if d != nil {
		d.conns.Close()
	}
}

// demoOrigins are the pages of all gateways: a page may connect to the other gateways too. It is
// nil, which leaves each gateway to its own host, unless the addresses are known to be a person's
// own machine.
func demoOrigins(listen string, gateways int) ([]string, error) {
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
		if port == "0" || host != "localhost" && !ip.IsLoopback() {
			return nil, nil
		}
		for _, name := range []string{"127.0.0.1", "localhost", "::1"} {
			out = append(out, "http://"+net.JoinHostPort(name, port))
		}
	}
	return out, nil
}
