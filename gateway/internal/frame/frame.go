package frame

import (
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/switchyard-io/switchyard/shared/fault"
)

// Kind says what a frame is. The values are the ELR2 ones.
type Kind uint8

// The kinds.
const (
	KindRequest  Kind = 1
	KindResponse Kind = 2
	KindPush     Kind = 3
	KindError    Kind = 4
)

var kindNames = [...]string{KindRequest: "request", KindResponse: "response", KindPush: "push", KindError: "error"}

func (k Kind) String() string {
	if k >= KindRequest && k <= KindError {
		return kindNames[k]
	}
	return "unknown"
}

// The routes that the gateway serves itself. Those below FirstApplication are reserved.
const (
	RouteAuthenticate uint32 = 1
	RouteHeartbeat    uint32 = 2
	RouteRenew        uint32 = 3
	RouteControl      uint32 = 4
	RouteAcknowledge  uint32 = 5
	RouteJoinGroup    uint32 = 6
	RouteLeaveGroup   uint32 = 7
	FirstApplication  uint32 = 100
)

// MaxID is the largest correlation number of a JSON frame, the largest integer that every JSON
// reader keeps exact.
const MaxID = 1<<53 - 1

// Frame is one frame, whatever its written form.
type Frame struct {
	Kind  Kind
	Route uint32
	ID    uint64 // correlation number, 0 on a push
	Seq   uint32 // the session's own numbering on a push, the client's on routes >= 100
	// Payload is the raw JSON text or, when Base64 is set or the codec is ELR2, any bytes. Nil
	// means that there is none. After Decode it aliases the message unless Base64 is set.
	Payload []byte
	Base64  bool // JSON: the payload travels as payload_b64
	Ack     bool // JSON push: the sender asked for an acknowledgement
}

// ErrNotFrame is wrapped by every decoding error that ends the connection with 4500: there is no
// frame that an error could be answered to.
var ErrNotFrame = errors.New("not a frame")

// Codec is one written form. The zero value is JSON. Codecs counts them, to index arrays.
type Codec uint8

// The codecs.
const (
	JSON Codec = iota
	ELR2
	Codecs = 2
)

// WebSocket subprotocol names.
const (
	SubprotocolJSON = "switchyard.v1.json"
	SubprotocolELR2 = "elura.v2"
)

// Name is the WebSocket subprotocol of the codec.
func (c Codec) Name() string {
	if c == ELR2 {
		return SubprotocolELR2
	}
	return SubprotocolJSON
}

func (c Codec) String() string { return c.Name() }

// Binary reports whether the codec's messages are binary ones.
func (c Codec) Binary() bool { return c == ELR2 }

// Decode reads what a client sent, strictly: unknown fields are refused. The error wraps
// ErrNotFrame, or is a *fault.Error and the frame has the route, id and seq that could be read.
// The payload aliases msg unless Base64 is set.
func (c Codec) Decode(msg []byte) (Frame, error) {
	if c == ELR2 {
		return decodeELR2(msg, true)
	}
	return decodeJSON(msg, true)
}

// DecodeReply reads what a gateway sent: as Decode, but unknown fields are ignored, as a reader
// of replies and pushes must.
func (c Codec) DecodeReply(msg []byte) (Frame, error) {
	if c == ELR2 {
		return decodeELR2(msg, false)
	}
	return decodeJSON(msg, false)
}

// Append writes the frame to the end of dst. With JSON a payload that is not marked Base64 must
// be valid JSON (see IsJSON): it is copied as it is.
func (c Codec) Append(dst []byte, f Frame) []byte {
	if c == ELR2 {
		return appendELR2(dst, f)
	}
	return appendJSON(dst, f)
}

// AppendError writes the error that answers request. Its payload is the error's body.
func (c Codec) AppendError(dst []byte, request Frame, e *fault.Error) []byte {
	return c.Append(dst, Frame{
		Kind: KindError, Route: request.Route, ID: request.ID, Seq: request.Seq, Payload: e.JSON(),
	})
}

// IsJSON reports whether bytes of unknown origin can travel as a JSON "payload"; if not, they
// need Base64.
func IsJSON(b []byte) bool { return utf8.Valid(b) && json.Valid(b) }
