package fault

// CloseCode is a WebSocket close code of the protocol. 4000-4499: the client reconnects by
// itself; 4500-4999: it does not.
type CloseCode uint16

// The close codes.
const (
	CloseDraining              CloseCode = 4000
	CloseSlowConsumer          CloseCode = 4001
	CloseIdleTimeout           CloseCode = 4002
	CloseAuthenticationTimeout CloseCode = 4003
	CloseRateLimited           CloseCode = 4004
	CloseLeaseLost             CloseCode = 4005
	CloseInternal              CloseCode = 4006
	CloseProtocolViolation     CloseCode = 4500
	CloseUnauthenticated       CloseCode = 4501
	CloseReplaced              CloseCode = 4502
	CloseRevoked               CloseCode = 4503
	CloseBanned                CloseCode = 4504
	CloseForcedLogout          CloseCode = 4505
	CloseTooBig                CloseCode = 4506
)

var closeReasons = map[CloseCode]string{
	CloseDraining:              "draining",
	CloseSlowConsumer:          "slow consumer",
	CloseIdleTimeout:           "idle timeout",
	CloseAuthenticationTimeout: "authentication timeout",
	CloseRateLimited:           "rate limited",
	CloseLeaseLost:             "lease lost",
	CloseInternal:              "internal",
	CloseProtocolViolation:     "protocol violation",
	CloseUnauthenticated:       "unauthenticated",
	CloseReplaced:              "replaced by another session",
	CloseRevoked:               "revoked",
	CloseBanned:                "banned",
	CloseForcedLogout:          "forced logout",
	CloseTooBig:                "message too big",
}

func (c CloseCode) String() string {
	if r, ok := closeReasons[c]; ok {
		return r
	}
	return "closed"
}

// Reconnect tells whether a client should come back by itself.
func (c CloseCode) Reconnect() bool { return c < 4500 }
