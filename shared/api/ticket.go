package api

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
)

// MaxTicketGroups bounds the group globs of a ticket, each of at most MaxGlobBytes.
const (
	MaxTicketGroups = 64
	MaxGlobBytes    = 64
)

// TicketRequest is the body of sy.v1.ticket.issue and of POST /v1/tickets. A generation of 0
// stands for the account's current one, an empty device field for one that the client may fill;
// both are left out of the JSON, where they are refused.
type TicketRequest struct {
	Identity identity.Identity `json:"identity"`
	Device   *identity.Device  `json:"device,omitempty"`
	Groups   []string          `json:"groups,omitempty"`
}

// ticketJSON is a TicketRequest as it is written, where a field that is not there differs from an
// empty one.
type ticketJSON struct {
	Identity ticketIdentity `json:"identity"`
	Device   *ticketDevice  `json:"device,omitempty"`
	Groups   []string       `json:"groups,omitempty"`
}

type ticketIdentity struct {
	AccountID  string `json:"account_id"`
	UserID     string `json:"user_id"`
	RegionID   string `json:"region_id"`
	RealmID    string `json:"realm_id"`
	Generation *int64 `json:"generation,omitempty"`
}

type ticketDevice struct {
	ID    *string `json:"id,omitempty"`
	Flag  *string `json:"flag,omitempty"`
	Level *string `json:"level,omitempty"`
}

// MarshalJSON writes only what is set.
func (r TicketRequest) MarshalJSON() ([]byte, error) {
	id := r.Identity
	out := ticketJSON{Groups: r.Groups, Identity: ticketIdentity{
		AccountID: id.AccountID, UserID: id.UserID, RegionID: id.RegionID, RealmID: id.RealmID,
	}}
	if id.Generation != 0 {
		out.Identity.Generation = &id.Generation
	}
	if d := r.Device; d != nil {
		out.Device = &ticketDevice{}
		if d.ID != "" {
			out.Device.ID = &d.ID
		}
		if d.Flag != "" {
			out.Device.Flag = &d.Flag
		}
		level := d.Level.String()
		out.Device.Level = &level
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads strictly: unknown fields, and fields that are there and empty, are refused.
func (r *TicketRequest) UnmarshalJSON(data []byte) error {
	var in ticketJSON
	if err := unmarshal(data, &in, true); err != nil {
		return err
	}
	id := in.Identity
	*r = TicketRequest{Groups: in.Groups, Identity: identity.Identity{
		AccountID: id.AccountID, UserID: id.UserID, RegionID: id.RegionID, RealmID: id.RealmID,
	}}
	if id.Generation != nil {
		if *id.Generation < 1 {
			return malformed("identity.generation")
		}
		r.Identity.Generation = *id.Generation
	}
	if in.Device == nil {
		return nil
	}
	r.Device = &identity.Device{}
	var level string
	for _, f := range []struct {
		name     string
		from, to *string
	}{{"device.id", in.Device.ID, &r.Device.ID}, {"device.flag", in.Device.Flag, &r.Device.Flag}, {"device.level", in.Device.Level, &level}} {
		if f.from == nil {
			continue
		}
		if *f.from == "" {
			return malformed(f.name)
		}
		*f.to = *f.from
	}
	var err error
	if r.Device.Level, err = identity.ParseLevel(level); err != nil {
		return malformed("device.level")
	}
	return nil
}

func malformed(field string) error { return fault.New(fault.InvalidRequest, field+" is malformed") }

// Malformed is the fault for a validation error of package identity. It names the field, which is
// below prefix ("" or "device.", for example).
func Malformed(prefix string, err error) error {
	field := identity.FieldError(strings.TrimSuffix(prefix, "."))
	if errors.As(err, &field) {
		field = identity.FieldError(prefix) + field
	}
	return fault.Wrap(fault.InvalidRequest, string(field)+" is malformed", err)
}

// Validate checks the forms and bounds.
func (r *TicketRequest) Validate() error {
	id := r.Identity
	if id.Generation == 0 {
		id.Generation = 1
	}
	if err := id.Validate(); err != nil {
		return Malformed("identity.", err)
	}
	if r.Device != nil {
		if _, err := r.Device.Normalize(); err != nil {
			return Malformed("device.", err)
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
