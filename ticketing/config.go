package ticketing

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/ticket"
)

// ErrConfig is wrapped by every error of Validate.
var ErrConfig = errors.New("ticketing configuration")

// Config of one instance. Fill it with envconfig.
type Config struct {
	// ID is the node id, [A-Za-z0-9_-]{1,64}. Empty: the host name and a random suffix.
	ID string `envconfig:"TICKETING_ID" desc:"node id; empty: host name and a random suffix"`
	// Listen is host:port of the HTTP API. Port 0 takes a free one.
	Listen string `envconfig:"TICKETING_LISTEN" default:"127.0.0.1:7100" desc:"HTTP listener, host:port"`
	// AdminListen is host:port of health, metrics and drain.
	AdminListen string `envconfig:"TICKETING_ADMIN_LISTEN" default:"127.0.0.1:7110" desc:"admin listener, host:port"`
	// AdminToken is what HTTP admin calls present, SWITCHYARD_ADMIN_TOKEN. Empty: they are all refused.
	AdminToken string `ignored:"true"`
	// LoginTTL and ReconnectTTL are the lives of tickets, over 0 and at most an hour, rounded up
	// to whole seconds.
	LoginTTL     time.Duration `envconfig:"TICKETING_LOGIN_TTL" default:"60s" desc:"life of a login ticket"`
	ReconnectTTL time.Duration `envconfig:"TICKETING_RECONNECT_TTL" default:"30m" desc:"life of a reconnect ticket"`
	// MaxInFlight bounds the redeems and releases that run at a time; others wait their turn until
	// their deadline.
	MaxInFlight int `envconfig:"TICKETING_MAX_IN_FLIGHT" default:"256" desc:"redeems and releases at a time"`
	// LedgerMaxBytes bounds the record of used tickets: some 300 bytes each, for as long as it could be
	// used again. When it is full, logins are UNAVAILABLE until some have expired.
	LedgerMaxBytes int64 `envconfig:"TICKETING_LEDGER_MAX_BYTES" default:"536870912" desc:"size of the record of used tickets, bytes"`
	// Replicas of the buckets. 0: 3 where the NATS cluster has three servers or more, else 1.
	Replicas int `envconfig:"SWITCHYARD_REPLICAS" default:"0" desc:"replicas of buckets and streams; 0: by cluster size"`
}

// Validate reports the first value that cannot work.
func (c Config) Validate() error {
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("%w: TICKETING_LISTEN: %w", ErrConfig, err)
	}
	for name, ttl := range map[string]time.Duration{"TICKETING_LOGIN_TTL": c.LoginTTL, "TICKETING_RECONNECT_TTL": c.ReconnectTTL} {
		if ttl <= 0 || ttl > ticket.MaxTTL {
			return fmt.Errorf("%w: %s must be over 0 and at most %s", ErrConfig, name, ticket.MaxTTL)
		}
	}
	if c.AdminToken != "" && len(c.AdminToken) < lifecycle.MinTokenBytes {
		return fmt.Errorf("%w: SWITCHYARD_ADMIN_TOKEN must have at least %d bytes", ErrConfig, lifecycle.MinTokenBytes)
	}
	if c.MaxInFlight < 1 || c.MaxInFlight > 1<<16 {
		return fmt.Errorf("%w: TICKETING_MAX_IN_FLIGHT must be 1 to %d", ErrConfig, 1<<16)
	}
	if c.LedgerMaxBytes < 1<<16 {
		return fmt.Errorf("%w: TICKETING_LEDGER_MAX_BYTES must be at least %d", ErrConfig, 1<<16)
	}
	if c.Replicas < 0 || c.Replicas > 5 {
		return fmt.Errorf("%w: SWITCHYARD_REPLICAS must be 0 to 5", ErrConfig)
	}
	return nil
}
