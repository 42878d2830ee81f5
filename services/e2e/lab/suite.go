package lab

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/natstest"
)

// AdminToken is the admin token of every suite of the lab.
const AdminToken = "lab-admin-token-0123456789-0123456789"

// Options choose what a suite consists of. Zero fields mean one process each, and two gateways.
type Options struct {
	Authorities, Gateways, Ticketings int
	Env                               []string // for every service, over the lab's own
}

// Suite is Switchyard as separate processes against a separate NATS cluster.
type Suite struct {
	NATS        *NATS
	Authorities []*Service
	Gateways    []*Service
	Ticketings  []*Service
	Worldrouter *Service

	t testing.TB
}

// Service is one service process and its addresses.
type Service struct {
	*Process
	ID     string // node id, of a gateway
	Listen string // host:port for clients, of a gateway or ticketing
	Admin  string // host:port of the admin listener
}

// StartSuite starts everything and waits until each service is ready.
func StartSuite(t testing.TB, o Options) *Suite {
	t.Helper()
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.Authorities, 1)
	def(&o.Gateways, 2)
	def(&o.Ticketings, 1)
	s := &Suite{t: t, NATS: StartNATS(t)}
	for range o.Authorities {
		s.Authorities = append(s.Authorities, s.service("authority", "AUTHORITY", o.Env))
	}
	for range o.Ticketings {
		s.Ticketings = append(s.Ticketings, s.service("ticketing", "TICKETING", o.Env))
	}
	s.Worldrouter = s.service("worldrouter", "WORLDROUTER", o.Env)
	for i := range o.Gateways {
		id := fmt.Sprintf("gw-%d", i+1)
		g := s.service("gateway", "GATEWAY", slices.Concat([]string{"GATEWAY_ID=" + id}, o.Env))
		g.ID = id
		s.Gateways = append(s.Gateways, g)
	}
	for _, svc := range s.services() {
		svc.WaitReady(t)
	}
	return s
}

func (s *Suite) services() []*Service {
	return slices.Concat(s.Authorities, s.Ticketings, []*Service{s.Worldrouter}, s.Gateways)
}

func (s *Suite) service(name, prefix string, extra []string) *Service {
	s.t.Helper()
	ports := natstest.FreeAddrs(s.t, 2)
	svc := &Service{Listen: ports[0], Admin: ports[1]}
	env := []string{
		"NATS_URL=" + s.NATS.URL(name),
		"SWITCHYARD_ADMIN_TOKEN=" + AdminToken,
		prefix + "_ADMIN_LISTEN=" + svc.Admin,
	}
	if name == "gateway" || name == "ticketing" {
		env = append(env, prefix+"_LISTEN="+svc.Listen)
	}
	svc.Process = Start(s.t, name, append(env, extra...))
	return svc
}

// WaitReady waits until the service's readyz says so.
func (s *Service) WaitReady(t testing.TB) {
	t.Helper()
	Eventually(t, startTimeout, func() error {
		if !s.Running() {
			t.Fatalf("%s ended:\n%s", s.Name, s.Output())
		}
		return s.Ready()
	})
}

var httpClient = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// Ready asks readyz; nil means ready.
func (s *Service) Ready() error {
	resp, err := httpClient.Get("http://" + s.Admin + "/readyz")
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read-only
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: readyz %d", s.Name, resp.StatusCode)
	}
	return nil
}

// GatewayURL is the WebSocket URL of a gateway.
func (s *Service) GatewayURL() string { return "ws://" + s.Listen + "/v1/connect" }

// Backend is a plain NATS connection with a backend's rights, closed with the test.
func (s *Suite) Backend(t testing.TB) *Backend { return ConnectBackend(t, s.NATS.URL("backend")) }

// Backend is what a backend has: a NATS connection.
type Backend struct {
	*nats.Conn
	t testing.TB
}

// ConnectBackend connects to a NATS URL; the connection is closed with the test.
func ConnectBackend(t testing.TB, url string) *Backend {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return &Backend{Conn: nc, t: t}
}

// Call sends a JSON request and decodes the reply into out (may be nil). It returns the protocol
// error code of the reply, "" when there was none.
func (b *Backend) Call(subject string, in, out any) string {
	b.t.Helper()
	data, err := json.Marshal(in)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.CallRaw(subject, data, out)
}

// CallRaw is Call with the request's bytes.
func (b *Backend) CallRaw(subject string, data []byte, out any) string {
	b.t.Helper()
	reply, err := b.Request(subject, data, 10*time.Second)
	if err != nil {
		b.t.Fatalf("%s: %v", subject, err)
	}
	if code := reply.Header.Get("Nats-Service-Error-Code"); code != "" {
		var body struct {
			Code string `json:"code"`
		}
		if err := json.Unmarshal(reply.Data, &body); err != nil || body.Code != code {
			b.t.Errorf("%s: the error's body %q does not say %s", subject, reply.Data, code)
		}
		return code
	}
	if out != nil {
		if err := json.Unmarshal(reply.Data, out); err != nil {
			b.t.Fatalf("%s: reply %q: %v", subject, reply.Data, err)
		}
	}
	return ""
}

// Identity names a test user.
type Identity struct {
	AccountID string `json:"account_id"`
	UserID    string `json:"user_id"`
	RegionID  string `json:"region_id"`
	RealmID   string `json:"realm_id"`
}

// TicketDevice is the device that a ticket fixes.
type TicketDevice struct {
	ID    string `json:"id,omitempty"`
	Flag  string `json:"flag,omitempty"`
	Level string `json:"level,omitempty"`
}

// User is the identity of a user of region "eu", realm "main".
func User(name string) Identity {
	return Identity{AccountID: "acc-" + name, UserID: name, RegionID: "eu", RealmID: "main"}
}

// UID is the presence key of the identity.
func (i Identity) UID() string { return i.RegionID + "/" + i.RealmID + "/" + i.UserID }

// Ticket has a login ticket made.
func (b *Backend) Ticket(id Identity, device *TicketDevice, groups ...string) string {
	b.t.Helper()
	in := map[string]any{"identity": id}
	if device != nil {
		in["device"] = device
	}
	if len(groups) > 0 {
		in["groups"] = groups
	}
	var out struct {
		Ticket string `json:"ticket"`
	}
	if code := b.Call("sy.v1.ticket.issue", in, &out); code != "" {
		b.t.Fatalf("issue a ticket: %s", code)
	}
	return out.Ticket
}
