package client

import (
	"context"
	"encoding/json"
	"net"
	"time"

	"github.com/switchyard-io/switchyard/shared/identity"
)

// Subprotocol is the form of the frames.
type Subprotocol string

// The subprotocols.
const (
	JSON Subprotocol = "switchyard.v1.json" // the default
	ELR2 Subprotocol = "elura.v2"
)

// Options of Dial. The zero value will do.
type Options struct {
	Subprotocol Subprotocol // default JSON
	Origin      string      // Origin header; empty: none
	LocalAddr   net.IP      // address to dial from; nil: the system's choice
	NoAck       bool        // do not acknowledge pushes that ask for it; see Ack
	NoHeartbeat bool        // neither send heartbeats nor answer those of the gateway
	MaxMessage  int         // largest message accepted, in bytes; default 4 MiB

	OnPush    func(*Client, Push)    // a push with a route other than 4
	OnControl func(*Client, Control) // session control, before the close
	OnClose   func(*Client, error)   // once, the last call; the error is a *CloseError or of the network
}

// Push is one push. Its payload is valid only during the callback.
type Push struct {
	Route   uint32
	Seq     uint32
	Payload []byte
	Base64  bool // the sender gave bytes, not JSON
	Ack     bool // the sender waits for an acknowledgement
}

// Control is a session control push.
type Control struct {
	Action       string `json:"action"`
	Reason       string `json:"reason"`
	Reconnect    bool   `json:"reconnect"`
	RetryAfterMS int64  `json:"retry_after_ms"`
}

// Device is what a client may say of itself.
type Device struct {
	ID   string `json:"id,omitempty"`
	Flag string `json:"flag,omitempty"`
}

// Login is an authenticate request.
type Login struct {
	Ticket    string  `json:"ticket"`
	Device    *Device `json:"device,omitempty"`
	Resumable *bool   `json:"resumable,omitempty"`
	Resume    *Resume `json:"resume,omitempty"`
}

// Resume names the session to go on with.
type Resume struct {
	SessionID string `json:"session_id"`
	LastSeq   uint32 `json:"last_seq"`
}

// Session is the answer to an authenticate request. With ELR2 the identity has numbers on the
// wire; here both forms read the same.
type Session struct {
	SessionID         string            `json:"session_id"`
	Identity          identity.Identity `json:"identity"`
	Reconnect         Reconnect         `json:"reconnect"`
	HeartbeatInterval time.Duration     `json:"-"`
	IdleTimeout       time.Duration     `json:"-"`
	GatewayID         string            `json:"gateway_id"`
	Resumed           bool              `json:"resumed"`
	Replayed          int               `json:"replayed"`
	Raw               json.RawMessage   `json:"-"` // the payload as it came
}

// Reconnect is a reconnect ticket and its life.
type Reconnect struct {
	Ticket           string `json:"ticket"`
	ExpiresInSeconds int    `json:"expires_in_seconds"`
}

// Reply is the answer to a request.
type Reply struct {
	Seq     uint32
	Payload []byte
	Base64  bool
}

// Client is one connection to a gateway.
type Client struct{}

// Dial connects. The URL is ws://host:port/path, or tcp://host:port for the raw ELR2 listener.
// No goroutine outlives the client: Close, and OnClose tells when it is gone.
func Dial(ctx context.Context, url string, o Options) (*Client, error) { return nil, nil }

// Authenticate logs in, and starts heartbeats.
func (c *Client) Authenticate(ctx context.Context, l Login) (*Session, error) { return nil, nil }

// Request sends a request and waits for its answer: a *fault.Error when it is an error frame.
func (c *Client) Request(ctx context.Context, route uint32, payload []byte) (Reply, error) {
	return Reply{}, nil
}

// Go sends a request; done is called once, from the reading goroutine, with its answer, or with
// the error that ended the connection. The reply is valid only during the call.
func (c *Client) Go(route uint32, payload []byte, done func(Reply, error)) error { return nil }

// Ack acknowledges pushes by their sequence numbers (JSON only).
func (c *Client) Ack(seqs ...uint32) error { return nil }

// JoinGroup and LeaveGroup change this session's membership.
func (c *Client) JoinGroup(ctx context.Context, group string) error { return nil }

// LeaveGroup ends a membership.
func (c *Client) LeaveGroup(ctx context.Context, group string) error { return nil }

// Renew trades the current reconnect ticket for a new one.
func (c *Client) Renew(ctx context.Context, current string) (Reconnect, error) {
	return Reconnect{}, nil
}

// LastSeq is the highest push sequence seen.
func (c *Client) LastSeq() uint32 { return 0 }

// Close says goodbye and closes the socket. Idempotent.
func (c *Client) Close() error { return nil }
