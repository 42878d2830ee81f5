package natsconn

import (
	"errors"
	"fmt"
	"strings"

	"github.com/switchyard-io/switchyard/shared/subject"
)

// DefaultURL is the default of NATS_URL.
const DefaultURL = "nats://127.0.0.1:4222"

// Config says where NATS is and how to log in there. Fill it with envconfig.
type Config struct {
	// URL is a comma list of server URLs.
	URL string `envconfig:"NATS_URL" default:"nats://127.0.0.1:4222" desc:"NATS servers, a comma list of URLs"`
	// Creds is the path of a credentials file (JWT and seed). Empty: none.
	Creds string `envconfig:"NATS_CREDS" desc:"path of a NATS credentials file"`
	// NKeySeedFile is the path of an nkey seed. Empty: none. Not together with Creds.
	NKeySeedFile string `envconfig:"NATS_NKEY_SEED_FILE" desc:"path of an nkey seed file"`
	// TLSCA is the path of the certificate authority that the servers' certificates are checked
	// against. Empty: the system's.
	TLSCA string `envconfig:"NATS_TLS_CA" desc:"path of the CA certificates (PEM) of the NATS servers"`
	// TLSCert and TLSKey are the paths of the client's certificate and key; both or neither.
	TLSCert string `envconfig:"NATS_TLS_CERT" desc:"path of the client certificate (PEM)"`
	TLSKey  string `envconfig:"NATS_TLS_KEY" desc:"path of the client key (PEM)"`

	// InboxPrefix is where replies come. Empty: the default of NATS. See For.
	InboxPrefix string `ignored:"true"`
}

// For returns the configuration for a service, with an inbox of its own: what others may read there
// is decided by the permissions of NATS, and replies to ticketing hold signing keys.
func (c Config) For(service string) Config {
	c.InboxPrefix = subject.Inbox(service)
	return c
}

// ErrConfig is wrapped by every error of Validate.
var ErrConfig = errors.New("nats configuration")

// Validate reports a missing URL and combinations that cannot work. It opens no file.
func (c Config) Validate() error {
	if strings.Trim(c.URL, ", ") == "" {
		return fmt.Errorf("%w: NATS_URL is empty", ErrConfig)
	}
	if c.Creds != "" && c.NKeySeedFile != "" {
		return fmt.Errorf("%w: NATS_CREDS and NATS_NKEY_SEED_FILE exclude each other", ErrConfig)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return fmt.Errorf("%w: NATS_TLS_CERT and NATS_TLS_KEY belong together", ErrConfig)
	}
	return nil
}
