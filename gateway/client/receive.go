package client

import (
	"encoding/json"
	"errors"

	"github.com/gobwas/ws"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/shared/fault"
)

// sink is what a Client is to its parser.
type sink Client

func (s *sink) Open() bool { return true }
func (s *sink) Active()    {}

func (s *sink) Ping(payload []byte) { _ = (*Client)(s).write(ws.OpPong, payload) }

// Message handles one frame. One that cannot be read is the gateway's fault, and is let go: the
// connection may still be of use.
func (s *sink) Message(msg []byte) {
	c := (*Client)(s)
	f, err := c.codec.DecodeReply(msg)
	if err != nil {
		return
	}
	switch {
	case f.Kind == frame.KindPush && f.Route == frame.RouteControl:
		c.control(f)
	case f.Kind == frame.KindPush:
		c.push(f)
	case f.Kind == frame.KindRequest && f.Route == frame.RouteHeartbeat:
		if !c.opts.NoHeartbeat {
			_ = c.send(frame.Frame{Kind: frame.KindResponse, Route: f.Route, ID: f.ID, Seq: f.Seq})
		}
	case f.Kind == frame.KindResponse:
		c.answer(f, nil)
	case f.Kind == frame.KindError:
		c.answer(f, replyError(f))
	}
}

func (c *Client) push(f frame.Frame) {
	if c.opts.OnPush != nil {
		c.opts.OnPush(c, Push{Route: f.Route, Seq: f.Seq, Payload: f.Payload, Base64: f.Base64, Ack: f.Ack})
	}
	if f.Seq > c.last.Load() {
		c.last.Store(f.Seq)
	}
	if f.Ack && !c.opts.NoAck {
		_ = c.Ack(f.Seq)
	}
}

func (c *Client) answer(f frame.Frame, err error) {
	c.mu.Lock()
	done := c.pending[f.ID]
	delete(c.pending, f.ID)
	c.mu.Unlock()
	if done != nil {
		done(Reply{Seq: f.Seq, Payload: f.Payload, Base64: f.Base64}, err)
	}
}

func replyError(f frame.Frame) error {
	var b fault.Body
	if json.Unmarshal(f.Payload, &b) != nil || b.Code == "" {
		return errors.Join(ErrProtocol, errors.New("error frame without a code"))
	}
	return b.Err()
}

func (c *Client) control(f frame.Frame) {
	if c.opts.OnControl == nil {
		return
	}
	var control Control
	if c.codec == frame.ELR2 {
		control = controlMessage(f.Payload)
	} else if json.Unmarshal(f.Payload, &control) != nil {
		return
	}
	c.opts.OnControl(c, control)
}

// actions by their ELR2 numbers.
var actions = [...]string{1: "kick", 2: "account_version_changed", 3: "duplicate_login", 4: "force_logout", 5: "server_draining"}

// controlMessage reads the protobuf message {1: enum action, 2: string reason}.
func controlMessage(b []byte) (control Control) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return control
		}
		b = b[n:]
		switch {
		case num == 1 && typ == protowire.VarintType:
			var v uint64
			if v, n = protowire.ConsumeVarint(b); n > 0 && v < uint64(len(actions)) {
				control.Action = actions[v]
			}
		case num == 2 && typ == protowire.BytesType:
			var v []byte
			if v, n = protowire.ConsumeBytes(b); n > 0 {
				control.Reason = string(v)
			}
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return control
		}
		b = b[n:]
	}
	return control
}
