package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

// Telemetry gives meters and tracers. Make one a process with Start, and a view a node with ForNode.
type Telemetry struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	root    *root // nil: records and serves nothing
}

// root is what all views of a process share.
type root struct {
	registry *prometheus.Registry
	service  string
	version  string

	mu   sync.Mutex
	ends []func(context.Context) error // one a provider: the process' own, and one a ForNode
	down bool
}

// ErrShutdown is returned by ForNode after Shutdown.
var ErrShutdown = errors.New("telemetry has ended")

// Start sets metrics and traces up for a process. Exporters come from OTEL_TRACES_EXPORTER and
// OTEL_METRICS_EXPORTER; unset means none ("prometheus" too: MetricsHandler is always there), and
// OTEL_SDK_DISABLED=true turns all of it off. It fails for exporters that are not known or cannot
// be made.
func Start(ctx context.Context, service, version string) (*Telemetry, error) {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return Noop(), nil
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	t := &Telemetry{tracers: tracenoop.NewTracerProvider(), root: &root{registry: reg, service: service, version: version}}
	res, err := t.root.resource(ctx, service, "")
	if err != nil {
		return nil, err
	}
	if chosen("OTEL_TRACES_EXPORTER") {
		exp, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, fmt.Errorf("trace exporter: %w", err)
		}
		tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exp), sdktrace.WithResource(res))
		t.tracers = tp
		t.root.ends = append(t.root.ends, tp.Shutdown)
	}
	if t.meters, err = t.root.meterProvider(ctx, reg, res); err != nil {
		return nil, errors.Join(err, t.Shutdown(ctx))
	}
	return t, nil
}

// chosen reports whether a variable names an exporter that this package does not replace.
func chosen(variable string) bool {
	switch os.Getenv(variable) {
	case "", "none", "prometheus":
		return false
	}
	return true
}

func (r *root) resource(ctx context.Context, service, node string) (*resource.Resource, error) {
	attrs := []attribute.KeyValue{semconv.ServiceName(service), semconv.ServiceVersion(r.version), semconv.ServiceNamespace("switchyard")}
	if node != "" {
		attrs = append(attrs, semconv.ServiceInstanceID(node))
	}
	res, err := resource.New(ctx, resource.WithAttributes(attrs...), resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, fmt.Errorf("telemetry resource: %w", err)
	}
	return res, nil
}

func (r *root) meterProvider(ctx context.Context, reg prometheus.Registerer, res *resource.Resource) (metric.MeterProvider, error) {
	reader, err := otelprometheus.New(otelprometheus.WithRegisterer(reg), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("metrics reader: %w", err)
	}
	opts := []sdkmetric.Option{sdkmetric.WithReader(reader), sdkmetric.WithResource(res)}
	if chosen("OTEL_METRICS_EXPORTER") {
		exported, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return nil, fmt.Errorf("metrics exporter: %w", err)
		}
		opts = append(opts, sdkmetric.WithReader(exported))
	}
	mp := sdkmetric.NewMeterProvider(opts...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down {
		return nil, errors.Join(ErrShutdown, mp.Shutdown(ctx))
	}
	r.ends = append(r.ends, mp.Shutdown)
	return mp, nil
}

// Noop records and serves nothing, for tests.
func Noop() *Telemetry {
	return &Telemetry{meters: metricnoop.NewMeterProvider(), tracers: tracenoop.NewTracerProvider()}
}

// ForNode is a view whose instruments all carry the labels service and node, so that several
// nodes in one process stay apart. Shutdown of any view or the root ends all.
func (t *Telemetry) ForNode(service, node string) (*Telemetry, error) {
	if t.root == nil {
		return t, nil
	}
	ctx := context.Background() // no exporter connects before its first export
	res, err := t.root.resource(ctx, service, node)
	if err != nil {
		return nil, err
	}
	labelled := prometheus.WrapRegistererWith(prometheus.Labels{"service": service, "node": node}, t.root.registry)
	mp, err := t.root.meterProvider(ctx, labelled, res)
	if err != nil {
		return nil, err
	}
	return &Telemetry{meters: mp, tracers: t.tracers, root: t.root}, nil
}

// Meter returns the meter of an instrumentation scope, by convention the package's path.
func (t *Telemetry) Meter(name string) metric.Meter { return t.meters.Meter(name) }

// Tracer returns the tracer of an instrumentation scope. Without an exporter it makes no spans,
// but a trace that came in goes on.
func (t *Telemetry) Tracer(name string) trace.Tracer { return t.tracers.Tracer(name) }

// MetricsHandler serves all metrics of the process in Prometheus' format.
func (t *Telemetry) MetricsHandler() http.Handler {
	if t.root == nil {
		return http.NotFoundHandler()
	}
	return promhttp.HandlerFor(t.root.registry, promhttp.HandlerOpts{Registry: t.root.registry})
}

// Shutdown flushes and ends the exporters, bounded by ctx. Further calls do nothing.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	if t.root == nil {
		return nil
	}
	t.root.mu.Lock()
	ends := t.root.ends
	t.root.ends, t.root.down = nil, true
	t.root.mu.Unlock()
	var errs []error
	for _, end := range ends {
		errs = append(errs, end(ctx))
	}
	return errors.Join(errs...)
}
