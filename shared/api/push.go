package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
)

// Bounds of a push. A payload and the addresses of its receivers must fit one NATS message of
// 1 MiB together.
const (
	MaxPayloadBytes   = 896 << 10 // decoded
	MaxUsers          = 4096      // users of one request
	MaxSessions       = 4096      // sessions of one request
	MaxGroups         = 64        // groups of one request
	MaxExclude        = 1024      // exclude_sessions of one request
	MaxMessageIDBytes = 128

	MinAppRoute       = 100            // smaller routes are the protocol's own
	DefaultAckTimeout = 3_000          // milliseconds
	MaxAckTimeout     = 60_000         // milliseconds
	MaxTTL            = 24 * 3_600_000 // milliseconds
)

// Message is what a push carries, whoever it goes to.
type Message struct {
	Route uint32 `json:"route"`
	// Exactly one of Payload (any JSON value) and PayloadB64 (bytes) is there.
	Payload    json.RawMessage `json:"payload,omitzero"`
	PayloadB64 Base64          `json:"payload_b64,omitzero"`
	// Ack asks the clients for an acknowledgement, waited for AckTimeoutMS (0: 3 s).
	Ack          bool  `json:"ack,omitempty"`
	AckTimeoutMS int64 `json:"ack_timeout_ms,omitempty"`
	// ExcludeSessions get nothing and are not reported.
	ExcludeSessions []identity.SessionID `json:"exclude_sessions,omitempty"`
	// MessageID makes a repeat harmless, per session and for a bounded window.
	MessageID string `json:"message_id,omitempty"`
	// TTLMS is how long the push may wait before it is written; 0 is no limit.
	TTLMS int64 `json:"ttl_ms,omitempty"`
}

// Base64 is bytes that travel as standard base64 with padding.
type Base64 []byte

var errBase64 = fault.New(fault.InvalidRequest, "payload_b64 must be a string of standard base64 with padding")

// UnmarshalText reads strictly: encoding/json alone would let line breaks and stray bits pass.
func (b *Base64) UnmarshalText(text []byte) error {
	if bytes.ContainsAny(text, "\r\n") {
		return errBase64
	}
	enc := base64.StdEncoding.Strict()
	out := make([]byte, enc.DecodedLen(len(text)))
	n, err := enc.Decode(out, text)
	if err != nil {
		return errBase64
	}
	*b = out[:n]
	return nil
}

// Validate checks the forms and bounds.
func (m *Message) Validate() error {
	if m.Route < MinAppRoute {
		return fault.New(fault.InvalidRequest, "route must be 100 or more")
	}
	if (m.Payload == nil) == (m.PayloadB64 == nil) {
		return fault.New(fault.InvalidRequest, "one of payload and payload_b64 is needed")
	}
	if len(m.Payload) > MaxPayloadBytes || len(m.PayloadB64) > MaxPayloadBytes {
		return fault.New(fault.TooLarge, "payload is too large")
	}
	if m.AckTimeoutMS < 0 || m.AckTimeoutMS > MaxAckTimeout {
		return fault.New(fault.InvalidRequest, "ack_timeout_ms is out of bounds")
	}
	if m.TTLMS < 0 || m.TTLMS > MaxTTL {
		return fault.New(fault.InvalidRequest, "ttl_ms is out of bounds")
	}
	if len(m.ExcludeSessions) > MaxExclude {
		return fault.New(fault.TooLarge, "exclude_sessions has too many entries")
	}
	if m.MessageID != "" && !identity.ValidName(m.MessageID) {
		return fault.New(fault.InvalidRequest, "message_id is malformed")
	}
	return nil
}

// Bytes returns the payload and whether it was given as base64.
func (m *Message) Bytes() (payload []byte, base64 bool) {
	if m.PayloadB64 != nil {
		return m.PayloadB64, true
	}
	return m.Payload, false
}

// PushRequest is the body of sy.v1.push.
type PushRequest struct {
	Users    []identity.UID       `json:"users,omitempty"`
	Sessions []identity.SessionID `json:"sessions,omitempty"`
	Groups   []string             `json:"groups,omitempty"`
	Message
}

// Validate checks the forms and bounds. A request without any receiver is refused.
func (r *PushRequest) Validate() error {
	if len(r.Users)+len(r.Sessions)+len(r.Groups) == 0 {
		return fault.New(fault.InvalidRequest, "users, sessions or groups are needed")
	}
	if err := validTargets(r.Users, r.Sessions); err != nil {
		return err
	}
	if len(r.Groups) > MaxGroups {
		return fault.New(fault.TooLarge, "groups has too many entries")
	}
	for _, g := range r.Groups {
		if !identity.ValidGroup(g) {
			return fault.New(fault.InvalidRequest, "groups has a malformed name")
		}
	}
	return r.Message.Validate()
}

// UserPushRequest is the body of a per-user push subject.
type UserPushRequest struct{ Message }

// Delivery says what became of a push at one session.
type Delivery string

// The deliveries.
const (
	Queued     Delivery = "queued"
	Acked      Delivery = "acked"
	AckTimeout Delivery = "ack_timeout"
	Parked     Delivery = "parked"
	Overflow   Delivery = "overflow"
	Stale      Delivery = "stale"
)

// SessionResult is a push's fate at one session.
type SessionResult struct {
	UID       identity.UID       `json:"uid"`
	SessionID identity.SessionID `json:"session_id"`
	GatewayID string             `json:"gateway_id"`
	Status    Delivery           `json:"status"`
}

// UserError tells that for one user the outcome is not known or was refused. UID is empty when
// the failure is of a group.
type UserError struct {
	UID  identity.UID `json:"uid,omitempty"`
	Code fault.Code   `json:"code"`
}

// PushReply answers a push. Delivered counts the sessions that are queued or acked; Acked is
// there when an acknowledgement was asked for.
type PushReply struct {
	Delivered int             `json:"delivered"`
	Acked     *int            `json:"acked,omitempty"`
	Sessions  []SessionResult `json:"sessions"`
	Offline   []identity.UID  `json:"offline"`
	Unknown   []identity.UID  `json:"unknown"`
	Errors    []UserError     `json:"errors"`
}

// NewPushReply returns a reply with nothing in it: empty lists, never null.
func NewPushReply(ack bool) *PushReply {
	r := &PushReply{Sessions: []SessionResult{}, Offline: []identity.UID{}, Unknown: []identity.UID{}, Errors: []UserError{}}
	if ack {
		r.Acked = new(int)
	}
	return r
}

// Add records one session's result and counts it.
func (r *PushReply) Add(s SessionResult) {
	r.Sessions = append(r.Sessions, s)
	switch s.Status {
	case Queued:
		r.Delivered++
	case Acked:
		r.Delivered++
		if r.Acked != nil {
			*r.Acked++
		}
	}
}

// validTargets checks the users and sessions that a request names.
func validTargets(users []identity.UID, sessions []identity.SessionID) error {
	if len(users) > MaxUsers {
		return fault.New(fault.TooLarge, "users has too many entries")
	}
	if len(sessions) > MaxSessions {
		return fault.New(fault.TooLarge, "sessions has too many entries")
	}
	for _, u := range users {
		if _, err := identity.ParseUID(string(u)); err != nil {
			return fault.New(fault.InvalidRequest, "users has a malformed uid")
		}
	}
	for _, s := range sessions {
		if s.IsZero() {
			return fault.New(fault.InvalidRequest, "sessions has an empty id")
		}
	}
	return nil
}
