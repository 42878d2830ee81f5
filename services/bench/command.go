package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/switchyard-io/switchyard/services/operator"
	"github.com/switchyard-io/switchyard/shared/natsconn"
)

// workerCommand is the hidden subcommand that a worker process runs.
const workerCommand = "worker"

// Command is `bench`, with a subcommand for each scenario. It prints JSON where the root's --json
// flag is set.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a running suite with a fleet of clients",
		Long:  "Measure a running suite with a fleet of clients.\n\n" + operator.Environment,
		Args:  cobra.NoArgs,
	}
	worker := &cobra.Command{
		Use:    workerCommand,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return Work(c.Context(), c.InOrStdin(), c.OutOrStdout())
		},
	}
	cmd.AddCommand(worker)
	scenarios := Scenarios()
	for _, s := range slices.Sorted(maps.Keys(scenarios)) {
		cmd.AddCommand(scenarioCommand(s, scenarios[s]))
	}
	return cmd
}

func scenarioCommand(s Scenario, short string) *cobra.Command {
	var o Options
	cmd := &cobra.Command{
		Use:   string(s),
		Short: strings.ToUpper(short[:1]) + short[1:],
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.NATS = natsURL(o.NATS)
			report, err := Run(c.Context(), s, o, "bench", workerCommand)
			if err != nil {
				return err
			}
			asJSON, err := c.Flags().GetBool("json")
			if err != nil {
				return err
			}
			return report.print(c.OutOrStdout(), asJSON)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.Gateways, "gateways", []string{"ws://127.0.0.1:7000/v1/connect", "ws://127.0.0.1:7001/v1/connect"}, "WebSocket URLs of the gateways")
	f.StringVar(&o.NATS, "nats", "", "NATS URL, with the rights of a backend (default: NATS_URL, or "+natsconn.DefaultURL+")")
	f.IntVar(&o.Sessions, "sessions", 1000, "sessions of the fleet")
	f.IntVar(&o.Workers, "workers", 1, "client processes")
	f.IntVar(&o.Concurrency, "concurrency", 64, "logins at the same time")
	f.IntSliceVar(&o.PIDs, "pid", nil, "processes whose memory and CPU are reported")
	f.DurationVar(&o.Settle, "settle", 10*time.Second, "pause before memory is read")
	f.IntVar(&o.Rate, "rate", 2000, "requests a second, open loop; 0: as many as go")
	f.IntVar(&o.InFlight, "in-flight", 1024, "requests without a reply")
	f.DurationVar(&o.Duration, "duration", 10*time.Second, "how long requests are sent")
	f.IntVar(&o.Payload, "payload", 256, "bytes of a push's payload")
	f.IntVar(&o.Batch, "batch", 100, "users named in one request of the broadcast")
	return cmd
}

// natsURL is the flag's, or else the environment's. It is no default of the flag, for the help
// would show a password in it.
func natsURL(flag string) string {
	return cmp.Or(flag, os.Getenv("NATS_URL"), natsconn.DefaultURL)
}

func (r *Report) print(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s: %d sessions on %d gateways, %d closed unasked\n", r.Scenario, r.Sessions, r.Gateways, r.Closed)
	if l := r.Logins; l != nil {
		fmt.Fprintf(b, "logins    %d in %.1f s, %.0f/s, %d failed; %s\n", l.Done, l.Seconds, l.PerSecond, l.Failed, l.Latency)
		for _, text := range slices.Sorted(maps.Keys(l.Failures)) {
			fmt.Fprintf(b, "          %d x %s\n", l.Failures[text], text)
		}
	}
	if p := r.Pushes; p != nil {
		fmt.Fprintf(b, "requests  %d in %.1f s, %.0f/s; %d replies, %d faults, %d missed; %s\n", p.Requests, p.Seconds, p.PerSecond, p.Replies, p.Faults, p.Missed, p.ReplyLatency)
		fmt.Fprintf(b, "messages  %d reported, %d received, %.0f/s; %s\n", p.Delivered, p.Received, p.ReceivedPerSecond, p.Latency)
	}
	for _, p := range r.Process {
		fmt.Fprintf(b, "process   %d %s: %.1f MiB (%.1f before), %.2f cores", p.PID, p.Name, mib(p.RSS), mib(p.RSSBefore), p.Cores)
		if p.PerSession > 0 {
			fmt.Fprintf(b, ", %.2f KiB a session", float64(p.PerSession)/1024)
		}
		fmt.Fprintln(b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

func (l *Latency) String() string {
	return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms, p99.9 %.2f ms, most %.2f ms", l.P50/1000, l.P99/1000, l.P999/1000, l.Max/1000)
}
