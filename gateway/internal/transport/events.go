package transport

import (
	"errors"

	"github.com/switchyard-io/switchyard/shared/fault"
)

// Errors of Send and SendPrepared.
var (
	ErrClosed   = errors.New("connection closed")
	ErrOverflow = errors.New("send queue overflow")
)

// Events receives what happens on one connection. The calls for one connection never overlap and
// come from its reading goroutine, under no lock: they may call any method of the Conn. While one
// runs, nothing more is read from this connection.
type Events interface {
	// Message is one whole message. Its bytes are valid only during the call.
	Message(c *Conn, msg []byte)
	// Active says that the client sent a complete frame, control frames included. It comes before
	// the Message, at most once for each read from the socket.
	Active(c *Conn)
	// Closed is the last call, once for each connection: promptly after the connection began to
	// close, for whatever reason, while queued bytes may still be on their way.
	Closed(c *Conn, cause Cause)
}

// Origin says who ended a connection.
type Origin uint8

// The origins.
const (
	OriginLocal  Origin = iota + 1 // this side: Close, or a rule of this package; Cause.Code says why
	OriginPeer                     // the client's own close frame, or an orderly end of a TCP stream
	OriginBroken                   // the socket broke or ended without a close frame
)

// Cause is why a connection ended.
type Cause struct {
	Origin   Origin
	Code     fault.CloseCode // OriginLocal: the code that was sent
	PeerCode uint16          // OriginPeer: the client's close code, 0 when it gave none
	Err      error           // OriginBroken, or a broken rule: the detail, for logs
}
