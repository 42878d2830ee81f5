package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/kelseyhightower/envconfig"

	"github.com/switchyard-io/switchyard/shared/telemetry"
)

// Exit codes of Main.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// Settings are the variables that every process of the suite has. Fill it with envconfig.
type Settings struct {
	// AdminToken is what admin calls ask for. Empty: loopback listeners only, and no admin call.
	AdminToken string `envconfig:"SWITCHYARD_ADMIN_TOKEN" desc:"token of admin calls, at least 32 bytes; needed for a listener off loopback"`
	// LogLevel is debug, info, warn or error.
	LogLevel slog.Level `envconfig:"SWITCHYARD_LOG_LEVEL" default:"info" desc:"debug, info, warn or error"`
	// LogFormat is text or json.
	LogFormat string `envconfig:"SWITCHYARD_LOG_FORMAT" default:"text" desc:"text or json"`
}

// Logger makes the logger that the settings ask for.
func (s Settings) Logger(w io.Writer) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{Level: s.LogLevel}
	switch s.LogFormat {
	case "text":
		return slog.New(telemetry.LogHandler(slog.NewTextHandler(w, opts))), nil
	case "json":
		return slog.New(telemetry.LogHandler(slog.NewJSONHandler(w, opts))), nil
	}
	return nil, fmt.Errorf("SWITCHYARD_LOG_FORMAT: %q is neither text nor json", s.LogFormat)
}

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
//		lifecycle.Main(lifecycle.Gateway, func(_ context.Context, env lifecycle.Env) (lifecycle.Service, lifecycle.AdminConfig, error) {
//			admin := lifecycle.AdminConfig{Listen: cfg.AdminListen, Token: env.AdminToken}
//			node, tel, err := env.Node(cfg.ID)
//			if err != nil {
//				return nil, admin, err
//			}
//			s, err := gateway.New(cfg, node, nats, tel, env.Log)
//			return s, admin, err
//		}, &cfg, &nats)
//	}
func Main(name string, build Build, specs ...any) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal kills
	os.Exit(command{name: name, build: build, specs: specs, args: os.Args[1:], stdout: os.Stdout, stderr: os.Stderr}.run(ctx))
}

// command is Main without the process around it.
type command struct {
	name           string
	build          Build
	specs          []any
	args           []string
	stdout, stderr io.Writer
}

func (c command) run(ctx context.Context) int {
	var settings Settings
	specs := append(append([]any{}, c.specs...), &settings)
	if len(c.args) > 0 {
		return c.arguments(specs)
	}
	for _, spec := range specs {
		if err := envconfig.Process("", spec); err != nil {
			return c.refuse(err)
		}
	}
	log, err := settings.Logger(c.stderr)
	if err != nil {
		return c.refuse(err)
	}
	tel, err := telemetry.Start(ctx, c.name, Version)
	if err != nil {
		return c.refuse(err)
	}
	service, admin, err := c.build(ctx, Env{Service: c.name, Log: log, Telemetry: tel, AdminToken: settings.AdminToken})
	if err == nil {
		err = admin.Validate()
	}
	if err != nil {
		return c.refuse(errors.Join(err, shutdown(tel)))
	}
	err = Run(ctx, Plan{Admin: admin, Metrics: tel.MetricsHandler(), Log: log, Services: []Service{service}})
	if err = errors.Join(err, shutdown(tel)); err != nil {
		log.Error("ended with an error", "error", err)
		return exitFailed
	}
	log.Info("stopped")
	return exitOK
}

func shutdown(tel *telemetry.Telemetry) error {
	ctx, cancel := context.WithTimeout(context.Background(), StopTimeout)
	defer cancel()
	return tel.Shutdown(ctx)
}

func (c command) refuse(err error) int {
	_, _ = fmt.Fprintf(c.stderr, "%s: %v\n", c.name, err)
	return exitUsage
}

func (c command) arguments(specs []any) int {
	switch c.args[0] {
	case "-h", "-help", "--help", "help":
		_, _ = fmt.Fprintf(c.stdout, "%s %s: configured by environment variables only.\n\n", c.name, Version)
		if err := Usage(c.stdout, nil, specs...); err != nil {
			return c.refuse(err)
		}
		return exitOK
	case "-version", "--version":
		_, _ = fmt.Fprintf(c.stdout, "%s %s\n", c.name, Version)
		return exitOK
	}
	return c.refuse(fmt.Errorf("unknown argument %q; see --help", c.args[0]))
}

// usageRow is one variable a line, for a tabwriter.
const usageRow = "{{range .}}{{usage_key .}}\t{{usage_type .}}\t{{usage_default .}}\t{{usage_description .}}\n{{end}}"

// Usage prints every variable of the envconfig structs that specs point to, with its default: one
// that several have once, those of unused not at all.
func Usage(w io.Writer, unused []string, specs ...any) error {
	done := map[string]bool{}
	for _, name := range unused {
		done[name] = true
	}
	tabs := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	if _, err := fmt.Fprintln(tabs, "VARIABLE\tTYPE\tDEFAULT\tMEANING"); err != nil {
		return err
	}
	for _, spec := range specs {
		var rows strings.Builder
		if err := envconfig.Usagef("", spec, &rows, usageRow); err != nil {
			return err
		}
		for row := range strings.Lines(rows.String()) {
			name, _, _ := strings.Cut(row, "\t")
			if done[name] {
				continue
			}
			done[name] = true
			if _, err := io.WriteString(tabs, row); err != nil {
				return err
			}
		}
	}
	if _, err := fmt.Fprintln(tabs, "OTEL_*\t\t\tthe OpenTelemetry standard variables; no exporter unless set"); err != nil {
		return err
	}
	return tabs.Flush()
}
