package api

import (
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
)

// MaxTicketGroups bounds the group globs of a ticket, each of at most MaxGlobBytes.
const (
	MaxTicketGroups = 64
	MaxGlobBytes    = 64
)

// TicketRequest is the body of sy.v1.ticket.issue and of POST /v1/tickets. A generation of 0
// stands for the account's current one.
type TicketRequest struct {
	Identity identity.Identity `json:"identity"`
	Device   *identity.Device  `json:"device,omitempty"`
	Groups   []string          `json:"groups,omitempty"`
}

// Validate checks the forms and bounds.
func (r *TicketRequest) Validate() error {
	id := r.Identity
	if id.Generation == 0 {
		id.Generation = 1
	}
	if err := id.Validate(); err != nil {
		return fault.Wrap(fault.InvalidRequest, "identity is malformed", err)
	}
	if r.Device != nil {
		if _, err := r.Device.Normalize(); err != nil {
			return fault.Wrap(fault.InvalidRequest, "device is malformed", err)
		}
	}
	if len(r.Groups) > MaxTicketGroups {
		return fault.New(fault.TooLarge, "groups has too many entries")
	}
	for _, g := range r.Groups {
		if g == "" || len(g) > MaxGlobBytes {
			return fault.New(fault.InvalidRequest, "groups has a malformed glob")
		}
	}
	return nil
}

// TicketReply answers a TicketRequest.
type TicketReply struct {
	Ticket           string `json:"ticket"`
	ExpiresInSeconds int64  `json:"expires_in_seconds"`
}
