package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/kelseyhightower/envconfig"
	"github.com/spf13/cobra"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/natsconn"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// Environment tells in the help of a command which NATS it talks to.
const Environment = "NATS_URL names the NATS servers (default " + natsconn.DefaultURL + ")."

const defaultTimeout = 5 * time.Second

// ErrUsage marks errors of the command line or of the configuration: exit code 2.
var ErrUsage = errors.New("usage")

// tool is what all commands share: the global flags and where to write.
type tool struct {
	json    bool
	timeout time.Duration
	out     io.Writer
}

// Root is the command line without the commands that run services; add those to it.
func Root() *cobra.Command {
	t := &tool{}
	root := &cobra.Command{
		Use:           "switchyard",
		Short:         "Keep track of live client connections, and deliver to them",
		Long:          "Keep track of live client connections, and deliver to them.\n\n" + Environment,
		Version:       lifecycle.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          args(cobra.NoArgs), // an unknown command
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRun: func(c *cobra.Command, _ []string) {
			t.out = c.OutOrStdout()
		},
	}
	root.PersistentFlags().BoolVar(&t.json, "json", false, "print JSON")
	root.PersistentFlags().DurationVar(&t.timeout, "timeout", defaultTimeout, "how long to wait for the answer")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", ErrUsage, err) })
	for _, c := range []*cobra.Command{t.ticket(), t.who(), t.push(), t.kick(), t.slots(), t.nodes()} {
		c.Long = c.Short + ".\n\n" + Environment
		root.AddCommand(c)
	}
	root.AddCommand(t.drain())
	return root
}

// Execute runs root with the arguments of a command line, without the program's name, and returns
// the process's exit code.
func Execute(ctx context.Context, root *cobra.Command, arguments []string) int {
	root.SetArgs(arguments)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	stderr := root.ErrOrStderr()
	if wantsJSON(root, arguments) {
		_, _ = fmt.Fprintf(stderr, "%s\n", faultOf(err).JSON()) // nowhere left to report to
	} else {
		_, _ = fmt.Fprintf(stderr, "switchyard: %v\n", err)
	}
	if errors.Is(err, ErrUsage) {
		return exitUsage
	}
	return exitFailed
}

// wantsJSON also looks at arguments that cobra has not read, for it stops at the first that is wrong.
func wantsJSON(root *cobra.Command, arguments []string) bool {
	if on, err := root.PersistentFlags().GetBool("json"); err == nil && on {
		return true
	}
	if end := slices.Index(arguments, "--"); end >= 0 {
		arguments = arguments[:end]
	}
	return slices.Contains(arguments, "--json")
}

// faultOf is the error in the protocol's form. What was wrong with the command line is the
// caller's own, and is told in full.
func faultOf(err error) *fault.Error {
	if errors.Is(err, ErrUsage) {
		return fault.Wrap(fault.InvalidRequest, strings.TrimPrefix(err.Error(), ErrUsage.Error()+": "), err)
	}
	return fault.From(err)
}

// args turns cobra's complaints about arguments into usage errors.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, a []string) error {
		if err := check(c, a); err != nil {
			return fmt.Errorf("%w: %w", ErrUsage, err)
		}
		return nil
	}
}

// call sends a request over the NATS of NATS_URL and reads the reply.
func (t *tool) call(ctx context.Context, subject string, request, reply any) error {
	var cfg natsconn.Config
	if err := envconfig.Process("", &cfg); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	conns, err := natsconn.Open(ctx, cfg, "switchyard-cli", slog.New(slog.DiscardHandler))
	if err != nil {
		return fault.Wrap(fault.Unavailable, "no connection to NATS", err)
	}
	defer conns.Close()
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	m, err := natsconn.Request(ctx, conns.Data, subject, body)
	if err != nil {
		return err
	}
	if f := fault.FromMsg(m); f != nil {
		return f
	}
	if err := json.Unmarshal(m.Data, reply); err != nil {
		return fmt.Errorf("reply is malformed: %w", err)
	}
	return nil
}

// print writes v as JSON, or what plain writes.
func (t *tool) print(v any, plain func(w io.Writer)) error {
	if t.json {
		e := json.NewEncoder(t.out)
		e.SetIndent("", "  ")
		return e.Encode(v)
	}
	plain(t.out)
	return nil
}
