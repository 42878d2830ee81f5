package worldrouter

// Config of a node. Fill it with envconfig.
type Config struct {
	// ID names the node, [A-Za-z0-9_-]{1,64}. Empty: host name and a random suffix.
	ID string `envconfig:"WORLDROUTER_ID" desc:"node id; empty: host name and a random suffix"`
	// AdminListen is where health, metrics and drain are served.
	AdminListen string `envconfig:"WORLDROUTER_ADMIN_LISTEN" default:"127.0.0.1:7310" desc:"admin listener: health, version, metrics, drain"`
}
