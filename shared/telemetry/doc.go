// Package telemetry is the one way to metrics and traces: OpenTelemetry meters and tracers, a
// Prometheus endpoint, and trace context in NATS headers.
//
// Metrics are always served by MetricsHandler; anything else is exported only where the standard
// OTEL_* variables ask for it. Instruments use base units and carry no per-user attribute; hot
// paths bump atomics that observable instruments read.
//
// Everything is safe for concurrent use.
package telemetry
