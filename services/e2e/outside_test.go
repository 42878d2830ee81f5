package e2e

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/switchyard-io/switchyard/services/e2e/lab"
)

// deployment is what an outside test may know: where clients connect and where backends do.
type deployment struct {
	gateways []string // WebSocket URLs, at least two
	nats     string   // for backends
}

func (d *deployment) backend(t testing.TB) *lab.Backend { return lab.ConnectBackend(t, d.nats) }

// cases are the outside tests; each runs on every deployment, in parallel with the others: users
// are fresh, so none sees another's.
var cases = []struct {
	name string
	run  func(*testing.T, *deployment)
}{
	{"TwoDevicesOnTwoGateways", testTwoDevices},
	{"PerUserSubject", testPerUserSubject},
	{"TestI11_OrderOfOnePublisher", testOrder},
	{"Acknowledgements", testAcks},
	{"AcknowledgementOfAClosingSession", testAckOfClosing},
	{"MessageIDIsWrittenOnce", testMessageID},
	{"ExcludeSessions", testExclude},
	{"ManyUsersSomeOffline", testManyUsers},
	{"PushBySession", testPushBySession},
	{"Payloads", testPayloads},
	{"Presence", testPresence},
	{"Groups", testGroups},
	{"KickByUserAndSession", testKick},
	{"PublishWithoutReply", testFireAndForget},
	{"ConflictSlave", testSlaveConflict},
	{"ConflictMaster", testMasterConflict},
	{"ConflictOtherFlag", testFlagsCoexist},
	{"TestI1_HundredLoginsOfOneDevice", testHundredLogins},
	{"TestI5_TicketOnce", testTicketOnce},
	{"TestI13_LateCloseOfTheOldSession", testLateClose},
	{"ForgedTickets", testForgedTickets},
	{"ClosedEvents", testClosedEvents},
	{"TooManyGroups", testTooManyGroups},
	{"BadFrames", testBadFrames},
	{"BadELR2Frames", testBadELR2},
	{"WrongButWellFormed", testViolations},
	{"Oversized", testOversized},
	{"ClientThatReadsNothing", testStuckClient},
	{"HalfOpenConnections", testHalfOpen},
	{"Origins", testOrigins},
	{"BadBackendRequests", testBadRequests},
	{"SlotsAndNodes", testSlotsAndNodes},
	{"MicroServices", testMicro},
}

func runCases(t *testing.T, d *deployment) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, d)
		})
	}
}

func TestAllInOne(t *testing.T) {
	a := lab.StartAllInOne(t)
	t.Run("outside", func(t *testing.T) { runCases(t, &deployment{gateways: a.Gateways, nats: a.NATSURL}) })
	if code := a.Stop(); code != 0 {
		t.Errorf("SIGTERM: exit code %d", code)
	}
}

func TestSeparateProcesses(t *testing.T) {
	s := lab.StartSuite(t, lab.Options{Authorities: 2, Ticketings: 2})
	t.Run("outside", func(t *testing.T) {
		runCases(t, &deployment{
			gateways: []string{s.Gateways[0].GatewayURL(), s.Gateways[1].GatewayURL()},
			nats:     s.NATS.URL("backend"),
		})
	})
	for _, svc := range []*lab.Service{s.Gateways[0], s.Gateways[1], s.Worldrouter, s.Ticketings[0], s.Ticketings[1], s.Authorities[0], s.Authorities[1]} {
		if code := svc.Stop(); code != 0 {
			t.Errorf("%s: exit code %d after SIGTERM", svc.Name, code)
		}
	}
}

var users atomic.Int64

// newUser is an identity that no other test has. It is numeric, so that it can log in over ELR2.
func newUser() lab.Identity {
	n := 1000 + users.Add(1)
	return lab.Identity{AccountID: fmt.Sprint(n), UserID: fmt.Sprint(n + 500_000), RegionID: "1", RealmID: "7"}
}

// login connects to a gateway and logs in with a fresh ticket.
func login(t *testing.T, b *lab.Backend, url, sub string, id lab.Identity, device *lab.TicketDevice, groups ...string) *lab.Client {
	t.Helper()
	c := lab.Dial(t, url, sub)
	c.Login(b.Ticket(id, device, groups...), nil)
	return c
}

func dev(id string) *lab.TicketDevice { return &lab.TicketDevice{ID: id} }

func userSubject(id lab.Identity, op string) string {
	return strings.Join([]string{"sy.v1.user", id.RegionID, id.RealmID, id.UserID, op}, ".")
}

type pushReply struct {
	Delivered int  `json:"delivered"`
	Acked     *int `json:"acked"`
	Sessions  []struct {
		UID       string `json:"uid"`
		SessionID string `json:"session_id"`
		GatewayID string `json:"gateway_id"`
		Status    string `json:"status"`
	} `json:"sessions"`
	Offline []string `json:"offline"`
	Unknown []string `json:"unknown"`
	Errors  []struct {
		UID  string `json:"uid"`
		Code string `json:"code"`
	} `json:"errors"`
}

// statuses maps the session ids of a reply to their statuses.
func (r pushReply) statuses() map[string]string {
	out := map[string]string{}
	for _, s := range r.Sessions {
		out[s.SessionID] = s.Status
	}
	return out
}

// push sends to sy.v1.push and must get a reply that is no error.
func push(t *testing.T, b *lab.Backend, in map[string]any) pushReply {
	t.Helper()
	var out pushReply
	if code := b.Call("sy.v1.push", in, &out); code != "" {
		t.Fatalf("push: %s", code)
	}
	return out
}

type presenceReply struct {
	Users []presenceUser `json:"users"`
}

type presenceUser struct {
	UID      string `json:"uid"`
	Status   string `json:"status"`
	Sessions []struct {
		SessionID    string `json:"session_id"`
		GatewayID    string `json:"gateway_id"`
		BootID       string `json:"boot_id"`
		OwnerSeq     uint64 `json:"owner_seq"`
		Listener     string `json:"listener"`
		ConnectedAt  string `json:"connected_at"`
		LastActiveAt string `json:"last_active_at"`
		Device       struct {
			ID    string `json:"id"`
			Flag  string `json:"flag"`
			Level string `json:"level"`
		} `json:"device"`
	} `json:"sessions"`
}

func presence(t *testing.T, b *lab.Backend, uids ...string) []presenceUser {
	t.Helper()
	var out presenceReply
	if code := b.Call("sy.v1.presence", map[string]any{"users": uids}, &out); code != "" {
		t.Fatalf("presence: %s", code)
	}
	if len(out.Users) != len(uids) {
		t.Fatalf("presence of %d users has %d entries", len(uids), len(out.Users))
	}
	return out.Users
}
