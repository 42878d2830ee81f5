package session

import (
	"bytes"
	"encoding/json"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/gateway/internal/owner"
	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
)

// The payloads of routes below 100.
type (
	authenticate struct {
		Ticket    *string `json:"ticket"` // an empty one is as good as any other forgery
		Device    *device `json:"device"`
		Resumable *bool   `json:"resumable"`
		Resume    *struct {
			SessionID identity.SessionID `json:"session_id"`
			LastSeq   uint32             `json:"last_seq"`
		} `json:"resume"`
	}
	// device has no level: only a ticket can grant that.
	device struct {
		ID   string `json:"id"`
		Flag string `json:"flag"`
	}
	authenticated struct {
		SessionID           identity.SessionID `json:"session_id"`
		Identity            json.RawMessage    `json:"identity"`
		Reconnect           Reconnect          `json:"reconnect"`
		HeartbeatIntervalMS int64              `json:"heartbeat_interval_ms"`
		IdleTimeoutMS       int64              `json:"idle_timeout_ms"`
		GatewayID           string             `json:"gateway_id"`
		Resumed             bool               `json:"resumed"`
		Replayed            int                `json:"replayed"`
	}
	heartbeat struct {
		LastSeq uint32 `json:"last_seq"`
	}
	renew struct {
		Ticket string `json:"ticket"`
	}
	acknowledge struct {
		Seqs []uint32 `json:"seqs"`
	}
	membership struct {
		Group string `json:"group"`
	}
	control struct {
		Action       owner.Action `json:"action"`
		Reason       string       `json:"reason"`
		Reconnect    bool         `json:"reconnect"`
		RetryAfterMS int64        `json:"retry_after_ms,omitempty"`
	}
)

// decode reads a payload strictly; a missing one is {}.
func decode(payload []byte, v any) error {
	if err := api.Decode(payload, v); err != nil {
		return fault.Wrap(fault.InvalidRequest, fault.From(err).Message, err)
	}
	return nil
}

// decodeHeartbeat reads the one payload that every idle session sends again and again. Its usual
// form, {"last_seq":N}, is read by hand: a reflecting decoder would double the stack of the
// connection's goroutine, and with it the memory of an idle session.
func decodeHeartbeat(payload []byte) (heartbeat, error) {
	if len(payload) == 0 {
		return heartbeat{}, nil
	}
	if digits, ok := bytes.CutPrefix(payload, []byte(`{"last_seq":`)); ok {
		if digits, ok = bytes.CutSuffix(digits, []byte("}")); ok && plainNumber(digits) {
			n, err := strconv.ParseUint(string(digits), 10, 32)
			if err == nil {
				return heartbeat{LastSeq: uint32(n)}, nil
			}
		}
	}
	return decodeAnyHeartbeat(payload)
}

// plainNumber reports whether b has only digits and no superfluous zero, as JSON wants it.
func plainNumber(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) == 1 || len(b) > 1 && b[0] != '0'
}

//go:noinline
func decodeAnyHeartbeat(payload []byte) (heartbeat, error) {
	var h heartbeat
	err := decode(payload, &h)
	return h, err
}

// Actions that begin in the gateway; the others are owner's.
const (
	AccountVersionChanged owner.Action = "account_version_changed"
	ServerDraining        owner.Action = "server_draining"
)

// actionNumbers are the ELR2 numbers of the session control actions.
var actionNumbers = map[owner.Action]uint64{
	owner.Kick: 1, AccountVersionChanged: 2, owner.DuplicateLogin: 3, owner.ForceLogout: 4, ServerDraining: 5,
}

// appendControl encodes the session control push that precedes a close. It has no number.
func appendControl(c frame.Codec, e owner.Ending) []byte {
	f := frame.Frame{Kind: frame.KindPush, Route: frame.RouteControl}
	if c == frame.ELR2 {
		f.Payload = protowire.AppendTag(f.Payload, 1, protowire.VarintType)
		f.Payload = protowire.AppendVarint(f.Payload, actionNumbers[e.Action])
		if e.Reason != "" {
			f.Payload = protowire.AppendTag(f.Payload, 2, protowire.BytesType)
			f.Payload = protowire.AppendString(f.Payload, e.Reason)
		}
		return c.Append(nil, f)
	}
	payload, err := json.Marshal(control{Action: e.Action, Reason: e.Reason, Reconnect: e.Code.Reconnect()})
	if err != nil { // strings and a bool only: cannot fail
		panic(err)
	}
	f.Payload = payload
	return c.Append(nil, f)
}
