package operator

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/subject"
)

func (t *tool) who() *cobra.Command {
	return &cobra.Command{
		Use:   "who REGION/REALM/USER...",
		Short: "Show where users are connected",
		Args:  args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			users, err := parseUIDs(a)
			if err != nil {
				return err
			}
			var reply api.PresenceReply
			if err := t.call(c.Context(), subject.Presence, api.PresenceRequest{Users: users}, &reply); err != nil {
				return err
			}
			return t.print(reply, func(w io.Writer) { printPresence(w, reply, time.Now()) })
		},
	}
}

func printPresence(w io.Writer, reply api.PresenceReply, now time.Time) {
	tab := newTable(w, "USER", "STATUS", "SESSION", "GATEWAY", "DEVICE", "LISTENER", "CONNECTED", "ACTIVE")
	for _, u := range reply.Users {
		if len(u.Sessions) == 0 {
			tab.row(string(u.UID), string(u.Status), "", "", "", "", "", "")
		}
		for _, s := range u.Sessions {
			tab.row(string(u.UID), string(u.Status), s.SessionID.String(), s.GatewayID, deviceText(s.Device), s.Listener,
				ago(s.ConnectedAt.Time, now), ago(s.LastActiveAt.Time, now))
		}
	}
	tab.flush()
}

// deviceText is flag, level where it is not the default, and id: "pc/master d1".
func deviceText(d identity.Device) string {
	out := d.Flag
	if d.Level == identity.LevelMaster {
		out += "/master"
	}
	if d.ID != "" {
		out += " " + d.ID
	}
	return out
}

func (t *tool) push() *cobra.Command {
	var sessions, exclude []string
	var payload, text string
	var req api.PushRequest
	c := &cobra.Command{
		Use:   "push [REGION/REALM/USER...] --payload JSON",
		Short: "Deliver a message to users, sessions and groups",
		Example: `  switchyard push eu/main/alice --payload '{"text":"hello"}'
  switchyard push --group lobby --route 120 --text 'server restarts in 5 minutes'`,
		RunE: func(c *cobra.Command, a []string) (err error) {
			if req.Users, err = parseUIDs(a); err != nil {
				return err
			}
			if req.Sessions, err = parseSessions(sessions); err != nil {
				return err
			}
			if req.ExcludeSessions, err = parseSessions(exclude); err != nil {
				return err
			}
			if err := pushPayload(&req, c.Flags().Changed("payload"), payload, c.Flags().Changed("text"), text); err != nil {
				return err
			}
			if err := req.Validate(); err != nil {
				return fmt.Errorf("%w: %w", ErrUsage, err)
			}
			if wait := time.Duration(req.AckTimeoutMS)*time.Millisecond + defaultTimeout; req.Ack && !c.Flags().Changed("timeout") {
				t.timeout = max(t.timeout, wait)
			}
			var reply api.PushReply
			if err := t.call(c.Context(), subject.Push, req, &reply); err != nil {
				return err
			}
			return t.print(reply, func(w io.Writer) { printPush(w, reply) })
		},
	}
	f := c.Flags()
	f.StringArrayVar(&sessions, "session", nil, "session id (repeatable)")
	f.StringArrayVar(&req.Groups, "group", nil, "group name (repeatable)")
	f.StringArrayVar(&exclude, "exclude", nil, "session id that gets nothing (repeatable)")
	f.Uint32Var(&req.Route, "route", api.MinAppRoute, "route of the push")
	f.StringVar(&payload, "payload", "", "payload, any JSON value")
	f.StringVar(&text, "text", "", "payload, sent as bytes (payload_b64)")
	f.BoolVar(&req.Ack, "ack", false, "ask the clients to acknowledge, and wait for it")
	f.Int64Var(&req.AckTimeoutMS, "ack-timeout-ms", api.DefaultAckTimeout, "how long to wait for acknowledgements")
	f.StringVar(&req.MessageID, "message-id", "", "makes a repeat of this push harmless")
	f.Int64Var(&req.TTLMS, "ttl-ms", 0, "how long the push may wait (0: no limit)")
	return c
}

func pushPayload(req *api.PushRequest, isJSON bool, payload string, isText bool, text string) error {
	if isJSON == isText {
		return fmt.Errorf("%w: one of --payload and --text is needed", ErrUsage)
	}
	if isText {
		req.PayloadB64 = []byte(text)
	}
	if isJSON {
		if !json.Valid([]byte(payload)) {
			return fmt.Errorf("%w: --payload is no JSON value (use --text for anything else)", ErrUsage)
		}
		req.Payload = json.RawMessage(payload)
	}
	if !req.Ack {
		req.AckTimeoutMS = 0
	}
	return nil
}

func printPush(w io.Writer, r api.PushReply) {
	line := fmt.Sprintf("delivered %d", r.Delivered)
	if r.Acked != nil {
		line += fmt.Sprintf(", acknowledged %d", *r.Acked)
	}
	_, _ = fmt.Fprintln(w, line)
	if len(r.Sessions)+len(r.Offline)+len(r.Unknown)+len(r.Errors) == 0 {
		return
	}
	tab := newTable(w, "USER", "SESSION", "GATEWAY", "STATUS")
	for _, s := range r.Sessions {
		tab.row(string(s.UID), s.SessionID.String(), s.GatewayID, string(s.Status))
	}
	for _, u := range r.Offline {
		tab.row(string(u), "", "", string(api.Offline))
	}
	for _, u := range r.Unknown {
		tab.row(string(u), "", "", string(api.Unknown))
	}
	for _, e := range r.Errors {
		tab.row(string(e.UID), "", "", string(e.Code))
	}
	tab.flush()
}

func (t *tool) kick() *cobra.Command {
	var session, except string
	var req api.KickRequest
	c := &cobra.Command{
		Use:   "kick REGION/REALM/USER | --session ID",
		Short: "Close a user's sessions, or one session",
		Args:  args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			ids, err := parseSessions(nonEmpty(session, except))
			if err != nil {
				return err
			}
			if session != "" {
				req.SessionID, ids = ids[0], ids[1:]
			}
			if except != "" {
				req.ExceptSession = ids[0]
			}
			if len(a) == 1 {
				if req.UID, err = parseUID(a[0]); err != nil {
					return err
				}
			}
			if err := req.Validate(); err != nil {
				return fmt.Errorf("%w: %w", ErrUsage, err)
			}
			var reply api.KickReply
			if err := t.call(c.Context(), subject.Kick, req, &reply); err != nil {
				return err
			}
			return t.print(reply, func(w io.Writer) { _, _ = fmt.Fprintln(w, "kicked", strconv.Itoa(reply.Kicked)) })
		},
	}
	f := c.Flags()
	f.StringVar(&session, "session", "", "session id")
	f.StringVar(&except, "except", "", "session id of the user that stays")
	f.StringVar(&req.Reason, "reason", "", "text that the clients are shown")
	return c
}

func nonEmpty(list ...string) []string {
	var out []string
	for _, s := range list {
		if strings.TrimSpace(s) != "" {
			out = append(out, s)
		}
	}
	return out
}
