package gateway

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/activation"
	"github.com/switchyard-io/switchyard/gateway/internal/session"
	"github.com/switchyard-io/switchyard/gateway/internal/transport"
)

// ErrConfig is wrapped by every error of Validate.
var ErrConfig = errors.New("gateway configuration")

// Config of one gateway. Fill it with envconfig. Sizes are bytes.
type Config struct {
	// ID is the node id, [A-Za-z0-9_-]{1,64}. Empty: the host name and a random suffix.
	ID string `envconfig:"GATEWAY_ID" desc:"node id; empty: host name and a random suffix"`
	// Listen is host:port of the WebSocket listener. Port 0 takes a free one.
	Listen string `envconfig:"GATEWAY_LISTEN" default:"127.0.0.1:7000" desc:"WebSocket listener, host:port"`
	// TCPListen is host:port of the raw ELR2 listener. Empty: off.
	TCPListen string `envconfig:"GATEWAY_TCP_LISTEN" desc:"raw ELR2 listener, host:port; empty: off"`
	// AdminListen is host:port of health, metrics and drain.
	AdminListen string `envconfig:"GATEWAY_ADMIN_LISTEN" default:"127.0.0.1:7010" desc:"admin listener, host:port"`

	// AuthenticationTimeout is how long a connection may take to authenticate; then 4003.
	AuthenticationTimeout time.Duration `envconfig:"GATEWAY_AUTHENTICATION_TIMEOUT" default:"10s" desc:"time to authenticate in"`
	// HeartbeatInterval is the gateway's own, with jitter, and what clients are told. Below IdleTimeout.
	HeartbeatInterval time.Duration `envconfig:"GATEWAY_HEARTBEAT_INTERVAL" default:"25s" desc:"time between heartbeats"`
	// IdleTimeout is how long a session may send nothing; then 4002.
	IdleTimeout time.Duration `envconfig:"GATEWAY_IDLE_TIMEOUT" default:"75s" desc:"time without inbound traffic until a session is closed"`
	// RequestTimeout is how long a request may wait for another service.
	RequestTimeout time.Duration `envconfig:"GATEWAY_REQUEST_TIMEOUT" default:"5s" desc:"time until a request is given up"`
	// DrainTimeout bounds a drain; the closes are spread over half of it.
	DrainTimeout time.Duration `envconfig:"GATEWAY_DRAIN_TIMEOUT" default:"30s" desc:"bound of a drain; closes are spread over half of it"`
	// EvictTimeout is how long the owner of a session that a login replaces may take to confirm.
	EvictTimeout time.Duration `envconfig:"GATEWAY_EVICT_TIMEOUT" default:"3s" desc:"time that the owner of a replaced session has to confirm; then it is fenced"`
	// TouchInterval is how often the activity of sessions is told to their leaders.
	TouchInterval time.Duration `envconfig:"GATEWAY_TOUCH_INTERVAL" default:"2s" desc:"time between two reports of activity"`

	// MaxMessageBytes is the largest message of a client; beyond it 4506.
	MaxMessageBytes int `envconfig:"GATEWAY_MAX_MESSAGE_BYTES" default:"1048576" desc:"largest message of a client, bytes"`
	// SendQueueBytes is the most that waits for one client; beyond it 4001.
	SendQueueBytes int `envconfig:"GATEWAY_SEND_QUEUE_BYTES" default:"1048576" desc:"most bytes that wait for one client"`
	// MaxInFlight is the most requests of a session that wait for an answer.
	MaxInFlight int `envconfig:"GATEWAY_MAX_IN_FLIGHT" default:"64" desc:"requests of a session at a time"`
	// MaxViolations is how many wrong frames in a row end a connection with 4500.
	MaxViolations int `envconfig:"GATEWAY_MAX_VIOLATIONS" default:"10" desc:"wrong frames in a row until a connection is closed"`
	// RequestRate and RequestBurst limit the requests of a session: over time (a second) and at once.
	RequestRate  float64 `envconfig:"GATEWAY_REQUEST_RATE" default:"200" desc:"requests of a session a second"`
	RequestBurst int     `envconfig:"GATEWAY_REQUEST_BURST" default:"400" desc:"requests of a session at once"`
	// MaxSessions bounds the connections and the sessions of this gateway.
	MaxSessions int `envconfig:"GATEWAY_MAX_SESSIONS" default:"1000000" desc:"connections of this gateway"`
	// MaxActivations bounds the authenticates at work; others wait for their turn.
	MaxActivations int `envconfig:"GATEWAY_MAX_ACTIVATIONS" default:"1024" desc:"authenticates at work at a time"`
	// MaxConnectionsPerIP bounds the connections of one address. 0: no limit.
	MaxConnectionsPerIP int `envconfig:"GATEWAY_MAX_CONNECTIONS_PER_IP" default:"0" desc:"connections of one address; 0: no limit"`
	// MessageWindow is how many message ids a session remembers, to write none twice.
	MessageWindow int `envconfig:"GATEWAY_MESSAGE_WINDOW" default:"256" desc:"message ids that a session remembers"`
	// MaxAcks is how many pushes of a session wait for its acknowledgement; the oldest is given up.
	MaxAcks int `envconfig:"GATEWAY_MAX_ACKS" default:"1024" desc:"pushes of a session that wait for an acknowledgement"`
	// MaxHeld is how many pushes wait for the answer to a session's login.
	MaxHeld int `envconfig:"GATEWAY_MAX_HELD" default:"64" desc:"pushes of a session that wait for the answer to its login"`
	// MaxGroups is how many groups a session can be in.
	MaxGroups int `envconfig:"GATEWAY_MAX_GROUPS" default:"256" desc:"groups of a session"`
	// EventsQueue bounds the events that wait to be published.
	EventsQueue int `envconfig:"GATEWAY_EVENTS_QUEUE" default:"65536" desc:"events that wait to be published"`
	// MaxNodes bounds the process lives of the cluster that are known at a time.
	MaxNodes int `envconfig:"SWITCHYARD_MAX_NODES" default:"1024" desc:"process lives that are known at a time"`
	// AllowedOrigins are the Origin values that are let in, besides none at all. Empty: the
	// request's own host. "*": any.
	AllowedOrigins []string `envconfig:"GATEWAY_ALLOWED_ORIGINS" desc:"comma list of origins; empty: the request's own host"`

	// Replicas of the buckets, where this gateway is the first to need them. 0: 3 where the NATS
	// cluster has three servers or more, else 1.
	Replicas int `envconfig:"SWITCHYARD_REPLICAS" default:"0" desc:"replicas of buckets and streams; 0: by cluster size"`
}

// Bounds that follow from no setting.
const (
	releaseTimeout = 2 * time.Second // until a client is told that its ticket is spent
	maxCommits     = 16              // registers and commits of one activation
	maxCalls       = 1 << 16         // calls to other services that wait for an answer
)

// Validate reports the first value that cannot work. What the parts check themselves is checked
// by New.
func (c Config) Validate() error {
	for name, addr := range map[string]string{"GATEWAY_LISTEN": c.Listen, "GATEWAY_TCP_LISTEN": c.TCPListen} {
		if addr == "" && name == "GATEWAY_TCP_LISTEN" {
			continue
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrConfig, name, err)
		}
	}
	for name, d := range map[string]time.Duration{
		"GATEWAY_AUTHENTICATION_TIMEOUT": c.AuthenticationTimeout, "GATEWAY_HEARTBEAT_INTERVAL": c.HeartbeatInterval,
		"GATEWAY_IDLE_TIMEOUT": c.IdleTimeout, "GATEWAY_REQUEST_TIMEOUT": c.RequestTimeout,
		"GATEWAY_DRAIN_TIMEOUT": c.DrainTimeout, "GATEWAY_EVICT_TIMEOUT": c.EvictTimeout, "GATEWAY_TOUCH_INTERVAL": c.TouchInterval,
	} {
		if d <= 0 {
			return fmt.Errorf("%w: %s must be above 0", ErrConfig, name)
		}
	}
	for name, n := range map[string]int{
		"GATEWAY_MAX_MESSAGE_BYTES": c.MaxMessageBytes, "GATEWAY_SEND_QUEUE_BYTES": c.SendQueueBytes,
		"GATEWAY_MAX_IN_FLIGHT": c.MaxInFlight, "GATEWAY_MAX_VIOLATIONS": c.MaxViolations, "GATEWAY_REQUEST_BURST": c.RequestBurst,
		"GATEWAY_MAX_SESSIONS": c.MaxSessions, "GATEWAY_MAX_ACTIVATIONS": c.MaxActivations,
		"GATEWAY_MESSAGE_WINDOW": c.MessageWindow, "GATEWAY_MAX_ACKS": c.MaxAcks, "GATEWAY_MAX_HELD": c.MaxHeld, "GATEWAY_MAX_GROUPS": c.MaxGroups,
		"GATEWAY_EVENTS_QUEUE": c.EventsQueue, "SWITCHYARD_MAX_NODES": c.MaxNodes,
	} {
		if n < 1 {
			return fmt.Errorf("%w: %s must be above 0", ErrConfig, name)
		}
	}
	switch {
	case c.HeartbeatInterval >= c.IdleTimeout:
		return fmt.Errorf("%w: GATEWAY_HEARTBEAT_INTERVAL must be below GATEWAY_IDLE_TIMEOUT", ErrConfig)
	case !(c.RequestRate > 0):
		return fmt.Errorf("%w: GATEWAY_REQUEST_RATE must be above 0", ErrConfig)
	case c.MaxConnectionsPerIP < 0:
		return fmt.Errorf("%w: GATEWAY_MAX_CONNECTIONS_PER_IP must not be negative", ErrConfig)
	case c.Replicas < 0 || c.Replicas > 5:
		return fmt.Errorf("%w: SWITCHYARD_REPLICAS must be 0 to 5", ErrConfig)
	}
	return nil
}

func (c Config) transport() transport.Config {
	return transport.Config{
		Listen: c.Listen, TCPListen: c.TCPListen,
		MaxMessageBytes: c.MaxMessageBytes, SendQueueBytes: c.SendQueueBytes,
		MaxConnections: c.MaxSessions, MaxConnectionsPerIP: c.MaxConnectionsPerIP, AllowedOrigins: c.AllowedOrigins,
	}
}

func (c Config) session(gatewayID string) session.Config {
	return session.Config{
		GatewayID:             gatewayID,
		AuthenticationTimeout: c.AuthenticationTimeout, HeartbeatInterval: c.HeartbeatInterval,
		IdleTimeout: c.IdleTimeout, RequestTimeout: c.RequestTimeout,
		MaxInFlight: c.MaxInFlight, MaxViolations: c.MaxViolations, RequestRate: c.RequestRate, RequestBurst: c.RequestBurst,
		MessageWindow: c.MessageWindow, MaxAcks: c.MaxAcks, MaxHeld: c.MaxHeld,
	}
}

func (c Config) activation() activation.Config {
	return activation.Config{
		EvictTimeout: c.EvictTimeout, ReleaseTimeout: releaseTimeout,
		AttemptTimeout: min(c.AuthenticationTimeout, c.RequestTimeout),
		MaxConcurrent:  c.MaxActivations, MaxCommits: maxCommits,
	}
}
