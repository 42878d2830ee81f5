package session

import (
	"errors"
	"time"
)

// Config has the limits of a session (PROTOCOL.md section 8). All must be above 0.
type Config struct {
	GatewayID             string
	AuthenticationTimeout time.Duration // from the connect; then 4003
	HeartbeatInterval     time.Duration // the gateway's own, with jitter, and what clients are told
	IdleTimeout           time.Duration // without inbound traffic; then 4002
	RequestTimeout        time.Duration // of a request that another service answers
	MaxInFlight           int           // requests of a session that wait for an answer
	MaxViolations         int           // in a row; then 4500
	RequestRate           float64       // requests a second, over time
	RequestBurst          int           // requests at once
	MessageWindow         int           // message ids that a session remembers, the latest ones
	MaxAcks               int           // pushes that wait for an acknowledgement; the oldest is given up
	MaxHeld               int           // pushes that are held until the client has its answer
}

// Bounds that are no settings.
const (
	// MaxTries is how often a connection may try to authenticate; then 4501.
	MaxTries = 3
	// MaxAckSeqs is how many pushes one request may acknowledge.
	MaxAckSeqs = 4096
	// refusedBursts is how many whole bursts of refused requests, without a calm second, end a
	// session with 4004.
	refusedBursts = 5
)

func (c Config) validate() error {
	if c.GatewayID == "" {
		return errors.New("session: GatewayID is empty")
	}
	if min(c.AuthenticationTimeout, c.HeartbeatInterval, c.IdleTimeout, c.RequestTimeout) <= 0 {
		return errors.New("session: time limits must be above 0")
	}
	if c.HeartbeatInterval >= c.IdleTimeout {
		return errors.New("session: the heartbeat interval must be below the idle timeout")
	}
	if min(c.MaxInFlight, c.MaxViolations, c.RequestBurst) < 1 || c.RequestRate <= 0 {
		return errors.New("session: MaxInFlight, MaxViolations, RequestRate and RequestBurst must be above 0")
	}
	if min(c.MessageWindow, c.MaxAcks, c.MaxHeld) < 1 {
		return errors.New("session: MessageWindow, MaxAcks and MaxHeld must be above 0")
	}
	return nil
}
