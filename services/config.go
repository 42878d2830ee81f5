package services

import (
	"errors"
	"fmt"

	"github.com/kelseyhightower/envconfig"

	"github.com/switchyard-io/switchyard/authority"
	"github.com/switchyard-io/switchyard/gateway"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/ticketing"
	"github.com/switchyard-io/switchyard/worldrouter"
)

// MaxGateways bounds the gateways of one process.
const MaxGateways = 64

// ErrConfig is wrapped by every error of Validate.
var ErrConfig = errors.New("all-in-one configuration")

// Config of the all-in-one process itself.
type Config struct {
	// DataDir holds JetStream's files and the admin token. It is made.
	DataDir string `envconfig:"SWITCHYARD_DATA_DIR" default:".switchyard" desc:"data folder"`
	// NATSListen is host:port of the embedded NATS server. Port 0 takes a free one.
	NATSListen string `envconfig:"SWITCHYARD_NATS_LISTEN" default:"127.0.0.1:4222" desc:"listener of the embedded NATS server"`
	// NATSToken is what NATS clients present. Empty: none, loopback only.
	NATSToken string `envconfig:"SWITCHYARD_NATS_TOKEN" desc:"token of NATS clients; needed for a listener off loopback"`
	// Gateways is the number of gateways, 1 to MaxGateways.
	Gateways int `envconfig:"SWITCHYARD_GATEWAYS" default:"2" desc:"number of gateways"`
	// Demo puts the demo page at "/" of the gateways.
	Demo bool `envconfig:"SWITCHYARD_DEMO" default:"true" desc:"demo page at / of the gateways"`
}

// Settings is everything that the environment says to an all-in-one process.
type Settings struct {
	Config
	Process     lifecycle.Settings
	Gateway     gateway.Config // of the first; the next ones take the next ports
	Authority   authority.Config
	Ticketing   ticketing.Config
	Worldrouter worldrouter.Config
}

// specs are the envconfig structs in it, in the order of the help text.
func (s *Settings) specs() []any {
	return []any{&s.Config, &s.Process, &s.Gateway, &s.Authority, &s.Ticketing, &s.Worldrouter}
}

// FromEnvironment reads and checks the settings.
func FromEnvironment() (Settings, error) {
	var s Settings
	for _, spec := range s.specs() {
		if err := envconfig.Process("", spec); err != nil {
			return s, fmt.Errorf("%w: %w", ErrConfig, err)
		}
	}
	return s, s.Validate()
}

// Validate reports the first value of the all-in-one's own that cannot work, and an admin listener
// off loopback without a token that somebody chose: the one that is made at the first start does
// not count, for whoever opens a listener to a network should know what guards it.
func (s Settings) Validate() error {
	if err := s.Config.Validate(); err != nil {
		return err
	}
	return lifecycle.AdminConfig{Listen: s.Gateway.AdminListen, Token: s.Process.AdminToken}.Validate()
}

// Validate reports the first value of the all-in-one's own that cannot work; services check theirs.
func (c Config) Validate() error {
	if c.DataDir == "" {
		return fmt.Errorf("%w: SWITCHYARD_DATA_DIR is empty", ErrConfig)
	}
	if c.Gateways < 1 || c.Gateways > MaxGateways {
		return fmt.Errorf("%w: SWITCHYARD_GATEWAYS must be 1 to %d", ErrConfig, MaxGateways)
	}
	return nil
}
