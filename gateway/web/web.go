package web

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/subject"
)

//go:embed static
var static embed.FS

// Region and Realm are the only ones that the demo touches.
const (
	Region = "demo"
	Realm  = "demo"
)

const (
	route          = 200              // application route of the demo's pushes
	maxBody        = 4 << 10          // bytes of a demo API request
	maxUsers       = 16               // users in one demo API request
	callTimeout    = 10 * time.Second // one call to the suite
	ackWait        = 3 * time.Second
	demoGeneration = 1
)

// Handler serves the page at "/" and its API below "/demo/". gateways are the WebSocket URLs that
// the page offers, in order.
func Handler(nc *nats.Conn, gateways []string) (http.Handler, error) {
	if nc == nil {
		return nil, errors.New("demo page: no NATS connection")
	}
	files, err := fs.Sub(static, "static")
	if err != nil {
		return nil, err
	}
	d := &demo{nc: nc, gateways: gateways}
	mux := http.NewServeMux()
	mux.Handle("GET /", pages(files))
	mux.HandleFunc("POST /demo/gateways", d.listGateways)
	mux.HandleFunc("POST /demo/ticket", d.ticket)
	mux.HandleFunc("POST /demo/push", d.push)
	mux.HandleFunc("POST /demo/kick", d.kick)
	mux.HandleFunc("POST /demo/presence", d.presence)
	mux.HandleFunc("POST /demo/", func(w http.ResponseWriter, _ *http.Request) { fault.ErrNotFound.WriteHTTP(w) })
	return guard(fault.Mux(mux)), nil
}

// pages serves the files, and refuses other paths with an error body.
func pages(files fs.FS) http.Handler {
	server := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := strings.TrimPrefix(path.Clean(r.URL.Path), "/"); name != "" {
			if _, err := fs.Stat(files, name); err != nil {
				fault.ErrNotFound.WriteHTTP(w)
				return
			}
		}
		server.ServeHTTP(w, r)
	})
}

// guard keeps other sites' pages from using the API through a visitor's browser: a request that
// names an origin must name ours, and the JSON content type cannot be sent by a plain form.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			origin := r.Header.Get("Origin")
			u, err := url.Parse(origin)
			if (origin != "" && (err != nil || u.Host != r.Host)) || r.Header.Get("Content-Type") != "application/json" {
				fault.New(fault.Forbidden, "not from the demo page").WriteHTTP(w)
				return
			}
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Content-Security-Policy", "default-src 'self'; connect-src 'self' ws: wss:; img-src data:; frame-ancestors 'none'")
		next.ServeHTTP(w, r)
	})
}

type demo struct {
	nc       *nats.Conn
	gateways []string
}

func (d *demo) listGateways(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{"gateways": d.gateways})
}

func (d *demo) ticket(w http.ResponseWriter, r *http.Request) {
	var in struct {
		User string `json:"user"`
	}
	if !readJSON(w, r, &in) {
		return
	}
	d.forward(w, r, subject.TicketIssue, map[string]any{"identity": identity.Identity{
		AccountID: in.User, UserID: in.User, RegionID: Region, RealmID: Realm, Generation: demoGeneration,
	}})
}

func (d *demo) push(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Users []string `json:"users"`
		Text  string   `json:"text"`
		Ack   bool     `json:"ack"`
	}
	if !readJSON(w, r, &in) {
		return
	}
	uids, err := demoUsers(in.Users)
	if err != nil {
		err.WriteHTTP(w)
		return
	}
	body := map[string]any{"users": uids, "route": route, "payload": map[string]string{"text": in.Text}}
	if in.Ack {
		body["ack"] = true
		body["ack_timeout_ms"] = ackWait.Milliseconds()
	}
	d.forward(w, r, subject.Push, body)
}

// kick takes a session id; it first looks whether that session is one of the demo's.
func (d *demo) kick(w http.ResponseWriter, r *http.Request) {
	var in struct {
		User      string             `json:"user"`
		SessionID identity.SessionID `json:"session_id"`
	}
	if !readJSON(w, r, &in) {
		return
	}
	uids, err := demoUsers([]string{in.User})
	if err != nil {
		err.WriteHTTP(w)
		return
	}
	reply, err := d.call(r.Context(), subject.Presence, map[string]any{"users": uids})
	if err != nil {
		err.WriteHTTP(w)
		return
	}
	var found struct {
		Users []struct {
			Sessions []struct {
				SessionID identity.SessionID `json:"session_id"`
			} `json:"sessions"`
		} `json:"users"`
	}
	if e := json.Unmarshal(reply, &found); e != nil {
		fault.From(e).WriteHTTP(w)
		return
	}
	for _, u := range found.Users {
		for _, s := range u.Sessions {
			if s.SessionID == in.SessionID {
				d.forward(w, r, subject.Kick, map[string]any{"session_id": in.SessionID, "reason": "kicked from the demo page"})
				return
			}
		}
	}
	fault.New(fault.NotFound, "no such session of that user").WriteHTTP(w)
}

func (d *demo) presence(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Users []string `json:"users"`
	}
	if !readJSON(w, r, &in) {
		return
	}
	uids, err := demoUsers(in.Users)
	if err != nil {
		err.WriteHTTP(w)
		return
	}
	d.forward(w, r, subject.Presence, map[string]any{"users": uids})
}

func demoUsers(users []string) ([]identity.UID, *fault.Error) {
	if len(users) == 0 || len(users) > maxUsers {
		return nil, fault.Newf(fault.InvalidRequest, "1 to %d users", maxUsers)
	}
	out := make([]identity.UID, 0, len(users))
	for _, user := range users {
		uid, err := identity.NewUID(Region, Realm, user)
		if err != nil {
			return nil, fault.New(fault.InvalidRequest, "user")
		}
		out = append(out, uid)
	}
	return out, nil
}

func (d *demo) forward(w http.ResponseWriter, r *http.Request, subj string, body any) {
	reply, err := d.call(r.Context(), subj, body)
	if err != nil {
		err.WriteHTTP(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(reply)
}

func (d *demo) call(ctx context.Context, subj string, body any) ([]byte, *fault.Error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fault.From(err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := d.nc.RequestWithContext(ctx, subj, data)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fault.From(err)
	case err != nil:
		return nil, fault.Wrap(fault.Unavailable, "temporarily unavailable", err)
	}
	if e := fault.FromMsg(reply); e != nil {
		return nil, e
	}
	return reply.Data, nil
}

func readJSON(w http.ResponseWriter, r *http.Request, into any) bool {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		fault.New(fault.InvalidRequest, "request body").WriteHTTP(w)
		return false
	}
	return true
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(v) // the browser went away: nobody is left to tell
}
