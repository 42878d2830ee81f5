package lifecycle

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"time"

	"github.com/switchyard-io/switchyard/shared/fault"
)

// AdminConfig configures an admin listener.
type AdminConfig struct {
	// Listen is host:port; port 0 takes a free one. Not loopback: needs a Token.
	Listen string
	// Token is what POST /drain and /undrain ask for, at least MinTokenBytes; empty refuses them all.
	Token string
	// DrainTimeout bounds a drain, by POST and by signal. 0: DefaultDrainTimeout.
	DrainTimeout time.Duration
}

const (
	// MinTokenBytes is the shortest admin token.
	MinTokenBytes = 32
	// DefaultDrainTimeout bounds a drain where the configuration says nothing.
	DefaultDrainTimeout = 30 * time.Second

	adminReadTimeout  = 5 * time.Second
	adminWriteTimeout = 30 * time.Second // a scrape of /metrics
	adminGrace        = time.Second      // for answers under way at the end; net/http gives silent connections 5 s
	undrainTimeout    = 5 * time.Second
	unreadyTimeout    = 500 * time.Millisecond
	unreadyPoll       = time.Millisecond
)

// ErrAdminConfig is wrapped by the errors of NewAdmin.
var ErrAdminConfig = errors.New("admin listener configuration")

// Validate reports a listener off loopback without a token, and a short token.
func (c AdminConfig) Validate() error {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAdminConfig, err)
	}
	if c.Token != "" && len(c.Token) < MinTokenBytes {
		return fmt.Errorf("%w: the admin token is shorter than %d bytes", ErrAdminConfig, MinTokenBytes)
	}
	if c.Token == "" && !Loopback(host) {
		return fmt.Errorf("%w: %s is not loopback and SWITCHYARD_ADMIN_TOKEN is not set", ErrAdminConfig, c.Listen)
	}
	return nil
}

// Loopback reports whether a listen host is reachable from this machine only.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// Authorized reports whether a request carries `Authorization: Bearer <token>`. It takes the same
// time whatever the difference; an empty token authorizes nobody.
func Authorized(r *http.Request, token string) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && ok && token != ""
}

// Admin is the HTTP server for /livez, /readyz, /version, /metrics, /drain and /undrain of one or
// several services.
type Admin struct {
	cfg      AdminConfig
	log      *slog.Logger
	services []Service
	drains   *drains
	server   *http.Server
	listener net.Listener
	served   chan struct{} // closed when Serve has returned
}

// NewAdmin checks the configuration: see AdminConfig.Validate. metrics may be nil.
func NewAdmin(cfg AdminConfig, metrics http.Handler, log *slog.Logger, services ...Service) (*Admin, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.DrainTimeout == 0 {
		cfg.DrainTimeout = DefaultDrainTimeout
	}
	a := &Admin{cfg: cfg, log: log, services: services, served: make(chan struct{}), drains: newDrains(cfg.DrainTimeout, log)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.HandleFunc("GET /version", a.version)
	mux.HandleFunc("POST /drain", a.authorized(a.drain))
	mux.HandleFunc("POST /undrain", a.authorized(a.undrain))
	if metrics != nil {
		mux.Handle("GET /metrics", metrics)
	}
	a.server = &http.Server{Handler: fault.Mux(mux), ReadTimeout: adminReadTimeout, WriteTimeout: adminWriteTimeout,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	return a, nil
}

// Handler serves the routes without a listener.
func (a *Admin) Handler() http.Handler { return a.server.Handler }

// Start listens and serves.
func (a *Admin) Start() error {
	l, err := net.Listen("tcp", a.cfg.Listen)
	if err != nil {
		return fmt.Errorf("admin listener: %w", err)
	}
	a.listener = l
	go func() {
		defer close(a.served)
		if err := a.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("admin listener failed", "error", err)
		}
	}()
	return nil
}

// Addr is the address listened on, host:port, after Start.
func (a *Admin) Addr() string { return a.listener.Addr().String() }

// Stop ends the server and cuts a running drain short. Answers under way get a second, or until ctx
// ends.
func (a *Admin) Stop(ctx context.Context) error {
	a.drains.stop()
	if a.listener == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, adminGrace)
	defer cancel()
	err := a.server.Shutdown(ctx)
	if err != nil { // whoever is still there has sent nothing, or reads nothing
		closed := a.server.Close()
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			err = closed
		}
	}
	<-a.served
	return err
}

// Ready is nil when every service is, else the first reason.
func (a *Admin) Ready() error {
	for _, s := range a.services {
		if err := s.Check(); err != nil {
			n := s.Node()
			return fmt.Errorf("%s %s: %w", n.Service, n.ID, err)
		}
	}
	return nil
}

func (a *Admin) readyz(w http.ResponseWriter, _ *http.Request) {
	if err := a.Ready(); err != nil {
		fault.New(fault.Unavailable, err.Error()).WriteHTTP(w)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

type versionReply struct {
	Version   string           `json:"version"`
	GoVersion string           `json:"go_version"`
	Nodes     []versionOfANode `json:"nodes"`
}

type versionOfANode struct {
	Service   string `json:"service"`
	NodeID    string `json:"node_id"`
	BootID    string `json:"boot_id"`
	Version   string `json:"version"`
	StartedAt string `json:"started_at"`
}

// instant is how the protocol writes a time: RFC 3339 with milliseconds, UTC.
const instant = "2006-01-02T15:04:05.000Z07:00"

func (a *Admin) version(w http.ResponseWriter, _ *http.Request) {
	v := versionReply{Version: Version, GoVersion: runtime.Version()}
	for _, s := range a.services {
		n := s.Node()
		v.Nodes = append(v.Nodes, versionOfANode{n.Service, n.ID, n.Boot, n.Version, n.StartedAt.UTC().Format(instant)})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the reader went away: nobody to tell
}

func (a *Admin) authorized(next func(http.ResponseWriter, *http.Request, []Service)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !Authorized(r, a.cfg.Token) {
			fault.ErrUnauthenticated.WriteHTTP(w)
			return
		}
		chosen := a.choose(r.URL.Query().Get("node"))
		if len(chosen) == 0 {
			fault.New(fault.NotFound, "no such node here").WriteHTTP(w)
			return
		}
		next(w, r, chosen)
	}
}

// choose returns the services of a node, or all for no node.
func (a *Admin) choose(node string) []Service {
	if node == "" {
		return a.services
	}
	var out []Service
	for _, s := range a.services {
		if s.Node().ID == node {
			out = append(out, s)
		}
	}
	return out
}

// drain answers at once, but not before /readyz is red, so that who asked can rely on it.
func (a *Admin) drain(w http.ResponseWriter, r *http.Request, chosen []Service) {
	a.drains.begin(chosen)
	ctx, cancel := context.WithTimeout(r.Context(), unreadyTimeout)
	defer cancel()
	poll := time.NewTicker(unreadyPoll)
	defer poll.Stop()
	for a.Ready() == nil && ctx.Err() == nil {
		select {
		case <-poll.C:
		case <-ctx.Done():
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

func (a *Admin) undrain(w http.ResponseWriter, r *http.Request, chosen []Service) {
	ctx, cancel := context.WithTimeout(r.Context(), undrainTimeout)
	defer cancel()
	if err := a.drains.undo(ctx, chosen); err != nil {
		a.log.Error("undrain failed", "error", err)
		fault.From(err).WriteHTTP(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
