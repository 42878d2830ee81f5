package transport

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/switchyard-io/switchyard/shared/fault"
)

// Names of the listeners, as presence shows them.
const (
	ListenerWebSocket = "websocket"
	ListenerTCP       = "tcp"
)

// Config has the settings of a Listener. Zero values take the defaults.
type Config struct {
	Listen    string // WebSocket listener, host:port; required
	TCPListen string // raw ELR2 listener, host:port; empty: off

	MaxMessageBytes     int      // largest message of a client; default 1 MiB; beyond it 4506
	SendQueueBytes      int      // most bytes queued for a connection; default 1 MiB; beyond it 4001
	MaxConnections      int      // most connections at once; 0: no limit but the descriptors
	MaxConnectionsPerIP int      // most connections of one address; 0: no limit
	AllowedOrigins      []string // Origin values let in besides none at all; empty: the request's own host; "*": any

	HandshakeTimeout time.Duration // from accept to the end of the upgrade request; default 5 s
	WriteTimeout     time.Duration // most time without progress of a write; default 10 s; beyond it 4001
	CloseTimeout     time.Duration // most time for the last bytes and the client's goodbye; default 5 s
}

// Hooks connect a Listener with what uses it.
type Hooks struct {
	// Open is called for each new connection before anything is read from it. Required.
	Open func(*Conn) Events
	// Refuse may refuse a connection by its address before the upgrade (HTTP: the error's status
	// and body; TCP: closed at once). Nil, or a nil result: let in.
	Refuse func(ip netip.Addr) *fault.Error
	// Fallback serves every other path of the WebSocket listener. Nil: 404.
	Fallback http.Handler
}

func (c Config) withDefaults() Config {
	c.MaxMessageBytes = orDefault(c.MaxMessageBytes, 1<<20)
	c.SendQueueBytes = orDefault(c.SendQueueBytes, 1<<20)
	c.HandshakeTimeout = orDefault(c.HandshakeTimeout, 5*time.Second)
	c.WriteTimeout = orDefault(c.WriteTimeout, 10*time.Second)
	c.CloseTimeout = orDefault(c.CloseTimeout, 5*time.Second)
	return c
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

func (c Config) validate() error {
	if c.Listen == "" {
		return errors.New("transport: Listen is empty")
	}
	for _, n := range []int{c.MaxMessageBytes, c.SendQueueBytes, c.MaxConnections, c.MaxConnectionsPerIP} {
		if n < 0 {
			return fmt.Errorf("transport: a limit is negative: %d", n)
		}
	}
	for _, d := range []time.Duration{c.HandshakeTimeout, c.WriteTimeout, c.CloseTimeout} {
		if d < 0 {
			return fmt.Errorf("transport: a time limit is negative: %s", d)
		}
	}
	return nil
}
