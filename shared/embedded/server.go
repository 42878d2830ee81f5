package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/subject"
)

// What every server of the suite is set to; deploy/ has the same.
const (
	// PingInterval and MaxPingsOut cut a client that hangs within 9 s.
	PingInterval = 3 * time.Second
	MaxPingsOut  = 2
	// MaxPayload leaves room for a batch around a message of the largest size that clients may send.
	MaxPayload = 8 << 20

	startTimeout = 20 * time.Second
	readySlice   = 100 * time.Millisecond
)

// Errors of Start.
var (
	ErrConfig     = errors.New("embedded NATS server configuration")
	ErrNotStarted = errors.New("embedded NATS server did not start")
)

// Config of a server.
type Config struct {
	// Listen is host:port for clients; port 0 takes a free one. Not loopback: needs a Token.
	Listen string
	// DataDir holds JetStream's files; it is made.
	DataDir string
	// Name of the server. Empty: made by the server; in a cluster it is required.
	Name string
	// Token that clients present (nats://token@host). Empty: none, loopback only.
	Token string
	// Cluster joins other servers. nil: alone.
	Cluster *Cluster
	// Log gets the server's warnings and errors. nil: dropped.
	Log *slog.Logger
}

// Cluster are the options of a server among others. Routes carry no authentication, so they stay
// on loopback: real clusters run the NATS server itself (deploy/).
type Cluster struct {
	Name   string   // of the cluster
	Listen string   // host:port for routes
	Routes []string // host:port of all servers
}

// Server runs until Shutdown. Safe for concurrent use.
type Server struct{ s *server.Server }

// Start brings a server up and returns when it takes clients, at most 20 s. (In a cluster
// JetStream may still have no leader then.) Errors wrap ErrConfig or ErrNotStarted.
func Start(cfg Config) (*Server, error) {
	opts, err := options(cfg)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("%w: data directory: %w", ErrNotStarted, err)
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	rec := &recorder{log: cfg.Log, fatal: make(chan struct{})}
	s.SetLoggerV2(rec, false, false, false)
	for _, m := range subject.Mappings() {
		if err := s.GlobalAccount().AddMapping(m.From, m.To); err != nil {
			return nil, fmt.Errorf("%w: mapping %s: %w", ErrNotStarted, m.From, err)
		}
	}
	s.Start()
	if !awaitReady(s, rec) || !s.JetStreamEnabled() {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("%w: %s", ErrNotStarted, rec.last())
	}
	return &Server{s: s}, nil
}

// awaitReady returns early when the server gives up, which it only logs.
func awaitReady(s *server.Server, rec *recorder) bool {
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		if s.ReadyForConnections(readySlice) {
			return true
		}
		select {
		case <-rec.fatal:
			return false
		default:
		}
	}
	return false
}

func options(cfg Config) (*server.Options, error) {
	host, port, err := hostPort(cfg.Listen)
	if err != nil {
		return nil, err
	}
	if cfg.Token == "" && !lifecycle.Loopback(host) {
		return nil, fmt.Errorf("%w: %s is not loopback and there is no authentication", ErrConfig, cfg.Listen)
	}
	if cfg.DataDir == "" {
		return nil, fmt.Errorf("%w: no data directory", ErrConfig)
	}
	o := &server.Options{
		ServerName: cfg.Name, Host: host, Port: port, Authorization: cfg.Token,
		JetStream: true, StoreDir: cfg.DataDir,
		PingInterval: PingInterval, MaxPingsOut: MaxPingsOut, MaxPayload: MaxPayload,
		NoSigs: true, NoLog: true,
	}
	if cfg.Cluster == nil {
		return o, nil
	}
	chost, cport, err := hostPort(cfg.Cluster.Listen)
	if err != nil {
		return nil, err
	}
	if !lifecycle.Loopback(chost) || cfg.Name == "" || cfg.Cluster.Name == "" {
		return nil, fmt.Errorf("%w: a cluster needs names and a loopback listener", ErrConfig)
	}
	o.Cluster = server.ClusterOpts{Name: cfg.Cluster.Name, Host: chost, Port: cport}
	o.Routes = server.RoutesFromStr(routeList(cfg.Cluster.Routes))
	return o, nil
}

func routeList(hostPorts []string) string {
	urls := make([]string, len(hostPorts))
	for i, hp := range hostPorts {
		urls[i] = "nats-route://" + hp
	}
	return strings.Join(urls, ",")
}

// hostPort splits a listen address; port 0 becomes the server's own word for "any".
func hostPort(listen string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, fmt.Errorf("%w: listen address: %w", ErrConfig, err)
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("%w: listen port %q", ErrConfig, p)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, nil
}

// URL for clients on this machine, without the token.
func (s *Server) URL() string {
	host, port, err := net.SplitHostPort(s.s.Addr().String())
	if err != nil { // a listener's address always splits
		return ""
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "nats://" + net.JoinHostPort(host, port)
}

// JetStreamReady reports whether JetStream takes requests here: alone always, in a cluster once
// this server is in step with the leader that was elected.
func (s *Server) JetStreamReady() bool {
	if !s.s.JetStreamIsClustered() {
		return s.s.JetStreamEnabled()
	}
	return s.s.JetStreamIsCurrent()
}

// JetStreamLeader reports whether this server leads JetStream: alone always, in a cluster as the
// leader of the meta group.
func (s *Server) JetStreamLeader() bool {
	if !s.s.JetStreamIsClustered() {
		return s.s.JetStreamEnabled()
	}
	return s.s.JetStreamIsLeader()
}

// Shutdown stops the server and waits for its end.
func (s *Server) Shutdown() {
	s.s.Shutdown()
	s.s.WaitForShutdown()
}
