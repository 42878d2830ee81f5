package transport

import (
	"net/netip"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/shared/fault"
)

// Conn is one client connection.
type Conn struct {
	codec frame.Codec
}

// Send queues one message, encoded with the connection's codec. The connection keeps msg: it must
// not be modified afterwards. ErrClosed once the connection is closing; ErrOverflow when the queue
// is full, and then the connection is being cut with 4001.
func (c *Conn) Send(msg []byte) error { return ErrClosed }

// SendPrepared queues a push that many sessions share; only the sequence number is this one's.
// Errors as Send. The codec of p must be the connection's.
func (c *Conn) SendPrepared(p *frame.Prepared, seq uint32) error { return ErrClosed }

// Close ends the connection: what is queued, then the last messages, then the close frame are
// written, for at most Config.CloseTimeout. The first call decides; later ones do nothing. It does
// not wait. Once it has returned, Send accepts nothing any more (I1).
func (c *Conn) Close(code fault.CloseCode, last ...[]byte) {}

// RemoteIP is the client's address, IPv4 in its short form.
func (c *Conn) RemoteIP() netip.Addr { return netip.Addr{} }

// Codec is the form of the messages.
func (c *Conn) Codec() frame.Codec { return c.codec }

// Listener is the name of what accepted the connection: ListenerWebSocket or ListenerTCP.
func (c *Conn) Listener() string { return "" }

// Queued is the number of bytes that wait to be written.
func (c *Conn) Queued() int { return 0 }
