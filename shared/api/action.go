package api

import (
	"unicode/utf8"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
)

// MaxReasonBytes bounds the text that a kick shows to the client.
const MaxReasonBytes = 256

// KickRequest is the body of sy.v1.kick. It names a user or a session.
type KickRequest struct {
	UID           identity.UID       `json:"uid,omitempty"`
	SessionID     identity.SessionID `json:"session_id,omitzero"`
	Reason        string             `json:"reason,omitempty"`
	ExceptSession identity.SessionID `json:"except_session,omitzero"`
}

// Validate checks the forms and bounds.
func (r *KickRequest) Validate() error {
	if (r.UID == "") == r.SessionID.IsZero() {
		return fault.New(fault.InvalidRequest, "one of uid and session_id is needed")
	}
	if r.UID != "" {
		if _, err := identity.ParseUID(string(r.UID)); err != nil {
			return fault.New(fault.InvalidRequest, "uid is malformed")
		}
	}
	if len(r.Reason) > MaxReasonBytes || !utf8.ValidString(r.Reason) {
		return fault.New(fault.InvalidRequest, "reason is too long or malformed")
	}
	return nil
}

// KickReply answers sy.v1.kick: how many sessions were closed.
type KickReply struct {
	Kicked int `json:"kicked"`
}

// GroupRequest is the body of sy.v1.group.join and sy.v1.group.leave: the sessions named, and
// those that the users have now.
type GroupRequest struct {
	Group    string               `json:"group"`
	Users    []identity.UID       `json:"users,omitempty"`
	Sessions []identity.SessionID `json:"sessions,omitempty"`
}

// Validate checks the forms and bounds.
func (r *GroupRequest) Validate() error {
	if !identity.ValidGroup(r.Group) {
		return fault.New(fault.InvalidRequest, "group is malformed")
	}
	if len(r.Users)+len(r.Sessions) == 0 {
		return fault.New(fault.InvalidRequest, "users or sessions are needed")
	}
	return validTargets(r.Users, r.Sessions)
}

// GroupReply answers a join or a leave: how many sessions changed.
type GroupReply struct {
	Changed int `json:"changed"`
}
