package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/shared/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T) *telemetry.Telemetry {
	t.Helper()
	tel, err := telemetry.Start(t.Context(), "switchyard", "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tel.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tel
}

func scrape(tel *telemetry.Telemetry) string {
	w := httptest.NewRecorder()
	tel.MetricsHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// Two nodes of one process use the same instruments and stay apart.
func TestNodesStayApart(t *testing.T) {
	root := start(t)
	for i, node := range []string{"g-1", "g-2"} {
		view, err := root.ForNode("gateway", node)
		if err != nil {
			t.Fatal(err)
		}
		m := view.Meter("test")
		c, err := m.Int64Counter("switchyard.test.things", metric.WithDescription("things"))
		if err != nil {
			t.Fatal(err)
		}
		c.Add(t.Context(), int64(i+1))
		if _, err := m.Int64ObservableGauge("switchyard.test.level", metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(10 * (i + 1)))
			return nil
		})); err != nil {
			t.Fatal(err)
		}
	}
	page := scrape(root)
	for _, want := range []string{
		`switchyard_test_things_total{node="g-1",service="gateway"} 1`, `switchyard_test_things_total{node="g-2",service="gateway"} 2`,
		`switchyard_test_level{node="g-1",service="gateway"} 10`, `switchyard_test_level{node="g-2",service="gateway"} 20`,
		"go_goroutines ", "process_resident_memory_bytes ",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is missing in\n%s", want, page)
		}
	}
}

func TestAfterShutdown(t *testing.T) {
	tel := start(t)
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := tel.ForNode("gateway", "g-1"); !errors.Is(err, telemetry.ErrShutdown) {
		t.Fatalf("a view of the dead: %v", err)
	}
}

func TestUnknownExportersAreRefused(t *testing.T) {
	for _, v := range []string{"OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"} {
		t.Run(v, func(t *testing.T) {
			t.Setenv(v, "carrier-pigeon")
			if _, err := telemetry.Start(t.Context(), "x", "1.0.0"); err == nil {
				t.Fatal("started")
			}
		})
	}
}

func TestExportersOnlyWhenAskedFor(t *testing.T) {
	tel := start(t)
	_, span := tel.Tracer("test").Start(t.Context(), "quiet")
	if span.IsRecording() {
		t.Fatal("records without an exporter")
	}
	span.End()
	t.Setenv("OTEL_TRACES_EXPORTER", "console")
	loud := start(t)
	_, span = loud.Tracer("test").Start(t.Context(), "loud")
	if !span.IsRecording() {
		t.Fatal("does not record")
	}
}

func TestDisabled(t *testing.T) {
	t.Setenv("OTEL_SDK_DISABLED", "true")
	tel := start(t)
	if page := scrape(tel); strings.Contains(page, "go_goroutines") {
		t.Fatal("serves metrics")
	}
}

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestTraceTravelsInHeaders(t *testing.T) {
	h := nats.Header{}
	telemetry.Inject(t.Context(), h)
	if len(h) != 0 || telemetry.Traced(t.Context()) {
		t.Fatalf("no trace, and yet %v", h)
	}
	ctx := telemetry.Extract(t.Context(), nats.Header{"traceparent": []string{traceparent}})
	if !telemetry.Traced(ctx) || trace.SpanContextFromContext(ctx).TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
		t.Fatal("lost on the way in")
	}
	// A tracer without an exporter hands the trace on.
	ctx, span := telemetry.Noop().Tracer("test").Start(ctx, "hop")
	span.End()
	telemetry.Inject(ctx, h)
	if h.Get("traceparent") != traceparent {
		t.Fatalf("lost on the way out: %v", h)
	}
	if telemetry.Traced(telemetry.Extract(t.Context(), nil)) {
		t.Fatal("a trace out of no headers")
	}
	if telemetry.Traced(telemetry.Extract(t.Context(), nats.Header{"traceparent": []string{"00-junk"}})) {
		t.Fatal("a trace out of junk")
	}
}

func TestLogsCarryTheTrace(t *testing.T) {
	var buf bytes.Buffer
	log := slog.New(telemetry.LogHandler(slog.NewTextHandler(&buf, nil))).With("node", "g-1").WithGroup("g")
	log.InfoContext(telemetry.Extract(t.Context(), nats.Header{"traceparent": []string{traceparent}}), "hello", "k", 1)
	if s := buf.String(); !strings.Contains(s, "trace_id=0af7651916cd43dd8448eb211c80319c") || !strings.Contains(s, "node=g-1") {
		t.Fatal(s)
	}
	buf.Reset()
	log.Info("hello")
	if s := buf.String(); strings.Contains(s, "trace_id") {
		t.Fatal(s)
	}
}

func TestNoop(t *testing.T) {
	tel := telemetry.Noop()
	view, err := tel.ForNode("gateway", "g-1")
	if err != nil {
		t.Fatal(err)
	}
	c, err := view.Meter("test").Int64Counter("x")
	if err != nil {
		t.Fatal(err)
	}
	c.Add(t.Context(), 1)
	if err := tel.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
}
