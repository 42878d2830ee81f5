package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/switchyard-io/switchyard/services/operator"
	"github.com/switchyard-io/switchyard/shared/embedded"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/telemetry"
)

// serviceName is the process in traces.
const serviceName = "switchyard"

// unused are the variables of the services' own processes: here all share the gateway's listener.
var unused = []string{"AUTHORITY_ADMIN_LISTEN", "TICKETING_ADMIN_LISTEN", "WORLDROUTER_ADMIN_LISTEN"}

// Command is `switchyard up`.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "up",
		Short: "Run everything in one process, on an embedded NATS server",
		Args: func(_ *cobra.Command, a []string) error {
			if len(a) > 0 {
				return fmt.Errorf("%w: up takes no arguments", operator.ErrUsage)
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := FromEnvironment()
			if err != nil {
				return fmt.Errorf("%w: %w", operator.ErrUsage, err)
			}
			log, err := s.Process.Logger(c.ErrOrStderr())
			if err != nil {
				return fmt.Errorf("%w: %w", operator.ErrUsage, err)
			}
			if err := Up(c.Context(), s, c.OutOrStdout(), log); err != nil {
				return err
			}
			log.InfoContext(c.Context(), "stopped")
			return nil
		},
	}
	c.SetHelpFunc(func(c *cobra.Command, _ []string) {
		out := c.OutOrStdout()
		_, _ = fmt.Fprintf(out, "%s.\n\nIt is configured by environment variables only.\n\n", c.Short) // shows below
		if err := lifecycle.Usage(out, unused, new(Settings).specs()...); err != nil {
			c.PrintErrln(err)
		}
	})
	return c
}

// Up runs the suite until ctx ends, and then drains and stops it. Once every service is ready it
// writes the ready line to out. It returns nil after a clean end.
func Up(ctx context.Context, s Settings, out io.Writer, log *slog.Logger) (err error) {
	dir, err := openDataDir(s.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.close()) }()
	token, err := dir.adminToken(s.Process.AdminToken)
	if err != nil {
		return err
	}
	server, err := embedded.Start(embedded.Config{Listen: s.NATSListen, DataDir: dir.nats(), Token: s.NATSToken, Log: log})
	if err != nil {
		return err
	}
	defer server.Shutdown()
	tel, err := telemetry.Start(ctx, serviceName, lifecycle.Version)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), lifecycle.StopTimeout)
		defer cancel()
		err = errors.Join(err, tel.Shutdown(ctx))
	}()
	site := &site{settings: s, token: token, tel: tel, log: log, nats: natsconn.Config{URL: withToken(server.URL(), s.NATSToken)}}
	if err := site.build(); err != nil {
		return err
	}
	var page *demo
	defer func() { page.close() }()
	return lifecycle.Run(ctx, lifecycle.Plan{
		Admin: lifecycle.AdminConfig{
			Listen: s.Gateway.AdminListen, Token: token, DrainTimeout: s.Gateway.DrainTimeout,
		},
		Metrics:  tel.MetricsHandler(),
		Log:      log,
		Services: site.services,
		OnReady: func(admin string) {
			if s.Demo {
				d, derr := site.openDemo(ctx)
				if derr != nil { // everything else works without
					log.ErrorContext(ctx, "no demo page", "error", derr)
				}
				page = d
			}
			_, _ = fmt.Fprintln(out, site.readyLine(server.URL(), admin, page != nil)) // a reader that is gone
		},
	})
}

// withToken puts the token where a NATS client looks for it.
func withToken(address, token string) string {
	u, err := url.Parse(address)
	if err != nil || token == "" {
		return address
	}
	u.User = url.User(token)
	return u.String()
}

// readyLine names the addresses. The NATS token is not in it.
func (s *site) readyLine(nats, admin string, demo bool) string {
	var gateways []string
	for _, g := range s.gateways {
		gateways = append(gateways, g.URL())
	}
	line := fmt.Sprintf("ready gateways=%s ticketing=%s nats=%s admin=http://%s",
		strings.Join(gateways, ","), s.ticketing.URL(), nats, admin)
	if demo {
		line += " demo=" + s.demoURL()
	}
	return line
}
