package api

import (
	"time"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
)

// Time is an instant in the written form of the protocol: RFC 3339 with milliseconds, UTC.
type Time struct{ time.Time }

const timeForm = "2006-01-02T15:04:05.000Z"

// At is t in the protocol's form.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// AtMS is At for unix milliseconds.
func AtMS(ms int64) Time { return At(time.UnixMilli(ms)) }

// MarshalJSON writes the form, always with milliseconds.
func (t Time) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(make([]byte, 0, len(timeForm)+2), `"`+timeForm+`"`), nil
}

// PresenceRequest is the body of sy.v1.presence.
type PresenceRequest struct {
	Users []identity.UID `json:"users"`
}

// Validate checks the forms and bounds.
func (r *PresenceRequest) Validate() error {
	if len(r.Users) == 0 {
		return fault.New(fault.InvalidRequest, "users is needed")
	}
	return validTargets(r.Users, nil)
}

// UserPresenceRequest is the body of a per-user presence subject: nothing.
type UserPresenceRequest struct{}

// Presence says whether a user has sessions. Unknown is no kind of offline: the slot's leader is
// missing or still rebuilding.
type Presence string

// The presences.
const (
	Online  Presence = "online"
	Offline Presence = "offline"
	Unknown Presence = "unknown"
)

// SessionPresence is one session of a user.
type SessionPresence struct {
	SessionID    identity.SessionID `json:"session_id"`
	GatewayID    string             `json:"gateway_id"`
	BootID       string             `json:"boot_id"`
	OwnerSeq     uint64             `json:"owner_seq"`
	Device       identity.Device    `json:"device"`
	Listener     string             `json:"listener"`
	ConnectedAt  Time               `json:"connected_at"`
	LastActiveAt Time               `json:"last_active_at"`
}

// UserPresence is one user's entry, and the whole reply of a per-user presence subject.
type UserPresence struct {
	UID      identity.UID      `json:"uid"`
	Status   Presence          `json:"status"`
	Sessions []SessionPresence `json:"sessions"`
}

// PresenceReply answers sy.v1.presence in the order of the request.
type PresenceReply struct {
	Users []UserPresence `json:"users"`
}
