package telemetry

import (
	"context"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// carrier is nats.Header as the propagator wants it. NATS header keys are case-sensitive, and W3C
// writes them in lower case, so nothing is canonicalised.
type carrier nats.Header

func (c carrier) Get(key string) string { return nats.Header(c).Get(key) }
func (c carrier) Set(key, value string) { nats.Header(c).Set(key, value) }
func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for k := range c {
		keys = append(keys, k)
	}
	return keys
}

var propagator = propagation.TraceContext{}

// Inject writes the W3C trace context of ctx in h, which must not be nil. Without a trace in ctx
// it does nothing.
func Inject(ctx context.Context, h nats.Header) { propagator.Inject(ctx, carrier(h)) }

// Extract returns ctx with the trace context that h carries; h may be nil.
func Extract(ctx context.Context, h nats.Header) context.Context {
	return propagator.Extract(ctx, carrier(h))
}

// Traced reports whether ctx carries a trace, so that Inject has something to write.
func Traced(ctx context.Context) bool { return trace.SpanContextFromContext(ctx).IsValid() }
