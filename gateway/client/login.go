package client

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/shared/identity"
)

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
	SessionID         string
	Identity          identity.Identity
	Reconnect         Reconnect
	HeartbeatInterval time.Duration
	IdleTimeout       time.Duration
	GatewayID         string
	Resumed           bool
	Replayed          int
	Raw               json.RawMessage // the payload as it came
}

// Reconnect is a reconnect ticket and its life.
type Reconnect struct {
	Ticket           string `json:"ticket"`
	ExpiresInSeconds int    `json:"expires_in_seconds"`
}

// sessionWire is the payload of the answer.
type sessionWire struct {
	SessionID string `json:"session_id"`
	Identity  struct {
		AccountID  text  `json:"account_id"`
		UserID     text  `json:"user_id"`
		RegionID   text  `json:"region_id"`
		RealmID    text  `json:"realm_id"`
		Generation int64 `json:"generation"`
	} `json:"identity"`
	Reconnect           Reconnect `json:"reconnect"`
	HeartbeatIntervalMS int64     `json:"heartbeat_interval_ms"`
	IdleTimeoutMS       int64     `json:"idle_timeout_ms"`
	GatewayID           string    `json:"gateway_id"`
	Resumed             bool      `json:"resumed"`
	Replayed            int       `json:"replayed"`
}

// text reads a string, or a number as it is written.
type text string

func (t *text) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(t))
	}
	var n json.Number
	if err := json.Unmarshal(b, &n); err != nil {
		return err
	}
	*t = text(n)
	return nil
}

// Authenticate logs in, and starts heartbeats. A refusal is a *fault.Error, and leaves the
// connection open for another try.
func (c *Client) Authenticate(ctx context.Context, l Login) (*Session, error) {
	payload, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	reply, err := c.Request(ctx, frame.RouteAuthenticate, payload)
	if err != nil {
		return nil, err
	}
	var w sessionWire
	if err := json.Unmarshal(reply.Payload, &w); err != nil {
		return nil, errors.Join(ErrProtocol, err)
	}
	s := &Session{
		SessionID: w.SessionID,
		Identity: identity.Identity{
			AccountID: string(w.Identity.AccountID), UserID: string(w.Identity.UserID),
			RegionID: string(w.Identity.RegionID), RealmID: string(w.Identity.RealmID),
			Generation: w.Identity.Generation,
		},
		Reconnect:         w.Reconnect,
		HeartbeatInterval: time.Duration(w.HeartbeatIntervalMS) * time.Millisecond,
		IdleTimeout:       time.Duration(w.IdleTimeoutMS) * time.Millisecond,
		GatewayID:         w.GatewayID, Resumed: w.Resumed, Replayed: w.Replayed,
		Raw: reply.Payload,
	}
	if l.Resume != nil && s.Resumed && l.Resume.LastSeq > c.LastSeq() {
		c.last.Store(l.Resume.LastSeq)
	}
	if !c.opts.NoHeartbeat && s.HeartbeatInterval > 0 {
		c.beatEvery(s.HeartbeatInterval)
	}
	return s, nil
}

// beatEvery starts heartbeats, with jitter so that many clients do not beat together.
func (c *Client) beatEvery(interval time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil || c.beats != nil {
		return
	}
	next := func() time.Duration { return interval - rand.N(interval/5+1) }
	c.beats = time.AfterFunc(next(), func() {
		_ = c.Heartbeat()
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.ended == nil {
			c.beats.Reset(next())
		}
	})
}

type groupRequest struct {
	Group string `json:"group"`
}

// JoinGroup makes this session a member; it needs the ticket's grant.
func (c *Client) JoinGroup(ctx context.Context, group string) error {
	return c.group(ctx, frame.RouteJoinGroup, group)
}

// LeaveGroup ends a membership.
func (c *Client) LeaveGroup(ctx context.Context, group string) error {
	return c.group(ctx, frame.RouteLeaveGroup, group)
}

func (c *Client) group(ctx context.Context, route uint32, group string) error {
	payload, err := json.Marshal(groupRequest{group})
	if err != nil {
		return err
	}
	_, err = c.Request(ctx, route, payload)
	return err
}

// Renew trades the current reconnect ticket for a new one.
func (c *Client) Renew(ctx context.Context, current string) (Reconnect, error) {
	payload, err := json.Marshal(Login{Ticket: current})
	if err != nil {
		return Reconnect{}, err
	}
	reply, err := c.Request(ctx, frame.RouteRenew, payload)
	if err != nil {
		return Reconnect{}, err
	}
	var r Reconnect
	if err := json.Unmarshal(reply.Payload, &r); err != nil {
		return Reconnect{}, errors.Join(ErrProtocol, err)
	}
	return r, nil
}
