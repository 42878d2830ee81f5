package transport

import (
	"context"
	"errors"
	"log/slog"
	"net"
)

// Listener accepts the connections of a gateway: WebSocket ones at /v1/connect and /elura/game
// and, if configured, raw TCP ones.
type Listener struct {
	cfg   Config
	hooks Hooks
	log   *slog.Logger
}

// New checks the configuration. It binds nothing and starts nothing.
func New(cfg Config, hooks Hooks, log *slog.Logger) (*Listener, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if hooks.Open == nil {
		return nil, errors.New("transport: Hooks.Open is nil")
	}
	return &Listener{cfg: cfg, hooks: hooks, log: log}, nil
}

// Start binds the addresses and accepts connections until Stop.
func (l *Listener) Start(ctx context.Context) error { return errors.New("transport: not ready") }

// Addr is the bound address of the WebSocket listener; nil before Start.
func (l *Listener) Addr() net.Addr { return nil }

// TCPAddr is the bound address of the raw TCP listener; nil when it is off or before Start.
func (l *Listener) TCPAddr() net.Addr { return nil }

// Stop stops accepting, closes what is still open with 4000, and waits until every connection is
// gone; when ctx ends, what remains is cut.
func (l *Listener) Stop(ctx context.Context) error { return nil }

// Failed yields the error of a listener that stopped accepting by itself.
func (l *Listener) Failed() <-chan error { return nil }

// Connections is the number of connections now.
func (l *Listener) Connections() int { return 0 }

// Stats is a snapshot of the counters.
func (l *Listener) Stats() Stats { return Stats{} }

// Stats counts since the Listener was made; Connections is the number now.
type Stats struct {
	Connections   int64
	Accepted      int64
	Refused       int64 // by origin, cap or hook
	MessagesIn    int64
	MessagesOut   int64
	BytesIn       int64
	BytesOut      int64
	Overflows     int64 // cut with 4001: queue full
	WriteTimeouts int64 // cut with 4001: no progress
	Violations    int64 // cut with 4500: broken WebSocket or ELR2 stream
	TooBig        int64 // cut with 4506
}
