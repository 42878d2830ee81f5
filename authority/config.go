package authority

import (
	"errors"
	"fmt"
	"time"

	"github.com/switchyard-io/switchyard/shared/slot"
)

// ErrConfig is wrapped by every error of Validate.
var ErrConfig = errors.New("authority configuration")

// Config of one node. Fill it with envconfig.
type Config struct {
	// ID is the node id, [A-Za-z0-9_-]{1,64}. Empty: the host name and a random suffix.
	ID string `envconfig:"AUTHORITY_ID" desc:"node id; empty: host name and a random suffix"`
	// AdminListen is host:port of health, metrics and drain.
	AdminListen string `envconfig:"AUTHORITY_ADMIN_LISTEN" default:"127.0.0.1:7210" desc:"admin listener, host:port"`
	// LogicalSlots is the number of logical slots of a new cluster. 0: 32, or what the cluster has.
	LogicalSlots int `envconfig:"AUTHORITY_LOGICAL_SLOTS" default:"0" desc:"logical slots of a new cluster; 0: 32, or what it has"`
	// Replicas of the buckets and the event stream. 0: 3 where the NATS cluster has three servers
	// or more, else 1.
	Replicas int `envconfig:"SWITCHYARD_REPLICAS" default:"0" desc:"replicas of buckets and streams; 0: by cluster size"`
	// Lease is the node lease, whole seconds; it must outlive the loss of a JetStream leader.
	Lease time.Duration `envconfig:"AUTHORITY_LEASE" default:"15s" desc:"node lease, whole seconds"`
	// RouteTTL is how long a route lives without a sign of life from its gateway.
	RouteTTL time.Duration `envconfig:"AUTHORITY_ROUTE_TTL" default:"180s" desc:"life of a route without a sign of life"`
	// MaxRoutes bounds the routes of one hash slot, a 256th of all.
	MaxRoutes int `envconfig:"AUTHORITY_MAX_ROUTES" default:"262144" desc:"routes of one hash slot (of 256)"`
	// LeaderWait is how long a push waits for a leader or for the end of a rebuild.
	LeaderWait time.Duration `envconfig:"AUTHORITY_LEADER_WAIT" default:"2500ms" desc:"how long a push waits for its slot's leader"`
	// OwnerTimeout is how long a gateway may take to answer.
	OwnerTimeout time.Duration `envconfig:"AUTHORITY_OWNER_TIMEOUT" default:"2s" desc:"how long a gateway may take to answer"`
	// MaxHeld bounds the pushes of one hash slot that wait for its rebuild.
	MaxHeld int `envconfig:"AUTHORITY_MAX_HELD" default:"1024" desc:"pushes of one hash slot that wait for its rebuild"`
	// MaxRequests bounds the requests for many users that run at a time.
	MaxRequests int `envconfig:"AUTHORITY_MAX_REQUESTS" default:"1024" desc:"requests for many users at a time"`
	// MaxCalls bounds the calls to gateways and leaders that wait for an answer.
	MaxCalls int `envconfig:"AUTHORITY_MAX_CALLS" default:"65536" desc:"calls that wait for an answer"`
	// MaxNodes bounds the process lives of the cluster that are known at a time.
	MaxNodes int `envconfig:"SWITCHYARD_MAX_NODES" default:"1024" desc:"process lives that are known at a time"`
	// Inbox bounds the calls that wait for one of the workers, of which there is one a core.
	Inbox int `envconfig:"AUTHORITY_INBOX" default:"16384" desc:"calls that wait for one worker"`
	// EventsMaxAge and EventsMaxBytes bound the event stream.
	EventsMaxAge   time.Duration `envconfig:"AUTHORITY_EVENTS_MAX_AGE" default:"24h" desc:"how long events are kept"`
	EventsMaxBytes int64         `envconfig:"AUTHORITY_EVENTS_MAX_BYTES" default:"268435456" desc:"size of the event stream, bytes"`
	// EventsQueue bounds the events that wait to be published.
	EventsQueue int `envconfig:"AUTHORITY_EVENTS_QUEUE" default:"65536" desc:"events that wait to be published"`
}

// Validate reports the first value that cannot work.
func (c Config) Validate() error {
	for _, f := range []struct {
		name     string
		n        int64
		min, max int64
	}{
		{"AUTHORITY_LOGICAL_SLOTS", int64(c.LogicalSlots), 0, slot.Count},
		{"SWITCHYARD_REPLICAS", int64(c.Replicas), 0, 5},
		{"AUTHORITY_MAX_ROUTES", int64(c.MaxRoutes), 1, 1 << 24},
		{"AUTHORITY_MAX_HELD", int64(c.MaxHeld), 1, 1 << 20},
		{"AUTHORITY_MAX_REQUESTS", int64(c.MaxRequests), 1, 1 << 20},
		{"AUTHORITY_MAX_CALLS", int64(c.MaxCalls), 1, 1 << 24},
		{"SWITCHYARD_MAX_NODES", int64(c.MaxNodes), 1, 1 << 16},
		{"AUTHORITY_INBOX", int64(c.Inbox), 1, 1 << 20},
		{"AUTHORITY_EVENTS_MAX_BYTES", c.EventsMaxBytes, 1 << 20, 1 << 50},
		{"AUTHORITY_EVENTS_QUEUE", int64(c.EventsQueue), 1, 1 << 24},
	} {
		if f.n < f.min || f.n > f.max {
			return fmt.Errorf("%w: %s is %d, not in %d..%d", ErrConfig, f.name, f.n, f.min, f.max)
		}
	}
	for _, f := range []struct {
		name     string
		d        time.Duration
		min, max time.Duration
	}{
		{"AUTHORITY_LEASE", c.Lease, 2 * time.Second, time.Hour},
		{"AUTHORITY_ROUTE_TTL", c.RouteTTL, time.Second, 24 * time.Hour},
		{"AUTHORITY_LEADER_WAIT", c.LeaderWait, time.Millisecond, time.Minute},
		{"AUTHORITY_OWNER_TIMEOUT", c.OwnerTimeout, time.Millisecond, time.Minute},
		{"AUTHORITY_EVENTS_MAX_AGE", c.EventsMaxAge, 2 * time.Minute, 10 * 365 * 24 * time.Hour},
	} {
		if f.d < f.min || f.d > f.max {
			return fmt.Errorf("%w: %s is %v, not in %v..%v", ErrConfig, f.name, f.d, f.min, f.max)
		}
	}
	return nil
}
