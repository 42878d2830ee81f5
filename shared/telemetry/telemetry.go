package telemetry

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Telemetry gives meters and tracers. Make one a process with Start, and a view a node with ForNode.
type Telemetry struct{}

// Start sets metrics and traces up for a process. Exporters come from OTEL_TRACES_EXPORTER and
// OTEL_METRICS_EXPORTER; unset means none. It fails for exporters that are not known or cannot be
// made.
func Start(ctx context.Context, service, version string) (*Telemetry, error) {
	panic("body follows")
}

// Noop records and serves nothing, for tests.
func Noop() *Telemetry { return &Telemetry{} }

// ForNode is a view whose instruments all carry the labels service and node, so that several
// nodes in one process stay apart. Shutdown of the root ends it too.
func (t *Telemetry) ForNode(service, node string) (*Telemetry, error) { panic("body follows") }

// Meter returns the meter of an instrumentation scope, by convention the package's path.
func (t *Telemetry) Meter(name string) metric.Meter { panic("body follows") }

// Tracer returns the tracer of an instrumentation scope.
func (t *Telemetry) Tracer(name string) trace.Tracer { panic("body follows") }

// MetricsHandler serves all metrics of the process in Prometheus' format.
func (t *Telemetry) MetricsHandler() http.Handler { panic("body follows") }

// Shutdown flushes and ends the exporters, bounded by ctx.
func (t *Telemetry) Shutdown(ctx context.Context) error { panic("body follows") }
