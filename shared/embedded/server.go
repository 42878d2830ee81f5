package embedded

import "log/slog"

// Config of a server.
type Config struct {
	// Listen is host:port for clients; port 0 takes a free one. Not loopback: needs a Token.
	Listen string
	// DataDir holds JetStream's files; it is made.
	DataDir string
	// Name of the server. Empty: made from the listen address; in a cluster it is required.
	Name string
	// Token that clients present (nats://token@host). Empty: none, loopback only.
	Token string
	// Cluster joins other servers. nil: alone.
	Cluster *Cluster
	// Log gets the server's warnings and errors. nil: dropped.
	Log *slog.Logger
}

// Cluster are the options of a server among others.
type Cluster struct {
	Name   string   // of the cluster
	Listen string   // host:port for routes
	Routes []string // host:port of all servers
}

// Server runs until Shutdown.
type Server struct{}

// Start brings a server up and returns when it takes clients. (In a cluster JetStream may still
// have no leader then.)
func Start(cfg Config) (*Server, error) { panic("body follows") }

// URL for clients, without the token.
func (s *Server) URL() string { panic("body follows") }

// Shutdown stops the server and waits for its end.
func (s *Server) Shutdown() { panic("body follows") }
