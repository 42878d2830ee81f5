package ticket

import "github.com/switchyard-io/switchyard/shared/fault"

// Refusal is why a ticket was refused. It unwraps to fault.ErrUnauthenticated: a client is told
// no more than that. The Reason is one of a fixed few, fit for a metric's label.
type Refusal struct{ Reason string }

func (r *Refusal) Error() string { return "ticket refused: " + r.Reason }

// Unwrap returns fault.ErrUnauthenticated.
func (r *Refusal) Unwrap() error { return fault.ErrUnauthenticated }

// The refusals, for errors.Is.
var (
	ErrMalformed   = &Refusal{"malformed"}     // no compact JWS with a key id and our claims
	ErrAlgorithm   = &Refusal{"algorithm"}     // anything but EdDSA
	ErrUnknownKey  = &Refusal{"unknown_key"}   // no such kid: perhaps the keys were rotated
	ErrSignature   = &Refusal{"signature"}     // not signed by that key
	ErrWrongParty  = &Refusal{"wrong_party"}   // issuer or audience
	ErrExpired     = &Refusal{"expired"}       // at or past exp, no leeway
	ErrFuture      = &Refusal{"future"}        // iat more than MaxSkew ahead
	ErrLifeTooLong = &Refusal{"life_too_long"} // exp - iat over the configured life
)
