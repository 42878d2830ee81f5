package ticketing

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/deadline"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/telemetry"
	"github.com/switchyard-io/switchyard/shared/ticket"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	adminToken = "0123456789abcdef0123456789abcdef"
	limit      = 10 * time.Second
)

func testConfig(id string) Config {
	return Config{
		ID: id, Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", AdminToken: adminToken,
		LoginTTL: time.Minute, ReconnectTTL: 30 * time.Minute, MaxInFlight: 64, LedgerMaxBytes: 16 << 20,
	}
}

// start runs an instance until the test ends.
func start(t testing.TB, url string, cfg Config) *Ticketing {
	t.Helper()
	s, err := New(cfg, lifecycle.NewNode(lifecycle.Ticketing, cfg.ID), natsconn.Config{URL: url},
		telemetry.Noop(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, limit, "ready", func() bool { return s.Check() == nil })
	return s
}

// rig is two instances over one server, and a client's connection.
type rig struct {
	t    *testing.T
	nc   *nats.Conn
	a, b *Ticketing
}

func newRig(t *testing.T) *rig {
	url := natstest.Server(t).URL()
	nc := natstest.Conn(t, url)
	return &rig{t: t, nc: nc, a: start(t, url, testConfig("a")), b: start(t, url, testConfig("b"))}
}

func (r *rig) issue(body string) (api.TicketReply, *fault.Error) {
	r.t.Helper()
	m, err := r.nc.Request(subject.TicketIssue, []byte(body), limit)
	if err != nil {
		r.t.Fatal(err)
	}
	var reply api.TicketReply
	if f := fault.FromMsg(m); f != nil {
		return reply, f
	}
	if err := json.Unmarshal(m.Data, &reply); err != nil {
		r.t.Fatal(err)
	}
	return reply, nil
}

const aliceRequest = `{"identity":{"account_id":"acc","user_id":"alice","region_id":"eu","realm_id":"main"},"device":{"id":"d1","flag":"pc","level":"master"},"groups":["guild-*"]}`

func (r *rig) ticket() string {
	r.t.Helper()
	reply, f := r.issue(aliceRequest)
	if f != nil {
		r.t.Fatal(f)
	}
	return reply.Ticket
}

func (r *rig) redeem(token string, session identity.SessionID) *wirepb.RedeemReply {
	r.t.Helper()
	reply, err := r.tryRedeem(token, session, time.Now().Add(limit))
	if err != nil {
		r.t.Fatal(err)
	}
	return reply
}

func (r *rig) tryRedeem(token string, session identity.SessionID, end time.Time) (*wirepb.RedeemReply, error) {
	req := wirepb.RedeemRequest{Ticket: token, SessionId: session[:], DeviceId: "d1", DeviceFlag: "pc",
		DeviceLevel: wirepb.Level_LEVEL_MASTER, DeadlineMs: end.UnixMilli()}
	body, err := req.MarshalVT()
	if err != nil {
		return nil, err
	}
	m, err := r.nc.Request(subject.TicketRedeem, body, max(time.Until(end), 0)+time.Second)
	if err != nil {
		return nil, err
	}
	reply := new(wirepb.RedeemReply)
	return reply, reply.UnmarshalVT(m.Data)
}

func (r *rig) release(id string, session identity.SessionID) wirepb.RedeemStatus {
	r.t.Helper()
	req := wirepb.ReleaseRequest{TicketId: id, SessionId: session[:], DeadlineMs: time.Now().Add(limit).UnixMilli()}
	body, err := req.MarshalVT()
	if err != nil {
		r.t.Fatal(err)
	}
	m, err := r.nc.Request(subject.TicketRelease, body, limit)
	if err != nil {
		r.t.Fatal(err)
	}
	var reply wirepb.ReleaseReply
	if err := reply.UnmarshalVT(m.Data); err != nil {
		r.t.Fatal(err)
	}
	return reply.GetStatus()
}

// verifier checks tickets as a gateway does: with the keys of the keys call.
func (r *rig) verifier() *ticket.Verifier {
	r.t.Helper()
	m, err := r.nc.Request(subject.TicketKeys, nil, limit)
	if err != nil {
		r.t.Fatal(err)
	}
	var reply wirepb.KeysReply
	if err := reply.UnmarshalVT(m.Data); err != nil {
		r.t.Fatal(err)
	}
	set, err := ticket.ParseKeySet(reply.GetJwks())
	if err != nil {
		r.t.Fatal(err)
	}
	v, err := ticket.NewVerifier(ticket.VerifierConfig{}, set)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

func TestIssuedTicketVerifiesEverywhere(t *testing.T) {
	r := newRig(t)
	v := r.verifier()
	for range 8 { // either instance may answer; both sign with one ring
		reply, f := r.issue(aliceRequest)
		if f != nil {
			t.Fatal(f)
		}
		if reply.ExpiresInSeconds != 60 {
			t.Fatalf("expires in %d s", reply.ExpiresInSeconds)
		}
		c, err := v.Verify(reply.Ticket, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if c.Identity.UID() != "eu/main/alice" || c.Identity.Generation != 1 || !c.GrantsGroup("guild-1") ||
			c.Device == nil || *c.Device != (ticket.Device{ID: "d1", Flag: "pc", Level: identity.LevelMaster}) {
			t.Fatalf("claims %+v", c)
		}
	}
}

func TestI5_FiftyRedeemsOneSuccess(t *testing.T) {
	r := newRig(t)
	token := r.ticket()
	const n = 50
	replies := make([]*wirepb.RedeemReply, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			reply, err := r.tryRedeem(token, identity.NewSessionID(22), time.Now().Add(limit))
			if err != nil {
				t.Error(err)
			}
			replies[i] = reply
		})
	}
	wg.Wait()
	won := 0
	for _, reply := range replies {
		switch reply.GetStatus() {
		case wirepb.RedeemStatus_REDEEM_STATUS_OK:
			won++
		case wirepb.RedeemStatus_REDEEM_STATUS_USED:
			if reply.GetReconnectTicket() != "" {
				t.Error("a loser got a reconnect ticket")
			}
		default:
			t.Errorf("status %s", reply.GetStatus())
		}
	}
	if won != 1 {
		t.Fatalf("%d won", won)
	}
}

func TestI5_RepeatIsTheSameSessionsOnly(t *testing.T) {
	r := newRig(t)
	token, session := r.ticket(), identity.NewSessionID(22)
	for range 3 {
		if s := r.redeem(token, session).GetStatus(); s != wirepb.RedeemStatus_REDEEM_STATUS_OK {
			t.Fatalf("a repeat: %s", s)
		}
	}
	if s := r.redeem(token, identity.NewSessionID(22)).GetStatus(); s != wirepb.RedeemStatus_REDEEM_STATUS_USED {
		t.Fatalf("another session: %s", s)
	}
}

func TestReleasedTicketIsUsableAgain(t *testing.T) {
	r := newRig(t)
	token, session, other := r.ticket(), identity.NewSessionID(22), identity.NewSessionID(22)
	c, err := r.verifier().Verify(token, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r.redeem(token, session)
	if s := r.release(c.ID, other); s != wirepb.RedeemStatus_REDEEM_STATUS_USED {
		t.Fatalf("a stranger's release: %s", s)
	}
	if s := r.release(c.ID, session); s != wirepb.RedeemStatus_REDEEM_STATUS_OK {
		t.Fatalf("release: %s", s)
	}
	if s := r.redeem(token, session).GetStatus(); s != wirepb.RedeemStatus_REDEEM_STATUS_REFUSED {
		t.Fatalf("a late redeem of the released session: %s", s)
	}
	if s := r.redeem(token, other).GetStatus(); s != wirepb.RedeemStatus_REDEEM_STATUS_OK {
		t.Fatalf("another session: %s", s)
	}
}

func TestReconnectTicketCarriesTheSessionOn(t *testing.T) {
	r := newRig(t)
	v := r.verifier()
	session := identity.NewSessionID(22)
	reply := r.redeem(r.ticket(), session)
	if reply.GetReconnectExpiresInSeconds() != 1800 {
		t.Fatalf("expires in %d s", reply.GetReconnectExpiresInSeconds())
	}
	c, err := v.Verify(reply.GetReconnectTicket(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if c.Purpose != ticket.Reconnect || c.Lineage != session || c.Identity.UID() != "eu/main/alice" ||
		c.Device.ID != "d1" || c.Device.Level != identity.LevelMaster || !c.GrantsGroup("guild-1") {
		t.Fatalf("claims %+v", c)
	}
	next := r.redeem(reply.GetReconnectTicket(), identity.NewSessionID(22))
	if c, err = v.Verify(next.GetReconnectTicket(), time.Now()); err != nil || c.Lineage != session {
		t.Fatalf("the second reconnect ticket: lineage %s, %v", c.Lineage, err)
	}
	if s := r.redeem(reply.GetReconnectTicket(), identity.NewSessionID(22)).GetStatus(); s != wirepb.RedeemStatus_REDEEM_STATUS_USED {
		t.Fatalf("a reconnect ticket twice: %s", s)
	}
}

// TestI5_RedeemRefusesWhatIsNoTicket: ticketing does not trust that a gateway has verified.
func TestI5_RedeemRefusesWhatIsNoTicket(t *testing.T) {
	r := newRig(t)
	token, session := r.ticket(), identity.NewSessionID(22)
	parts := strings.Split(token, ".")
	for name, bad := range map[string]string{
		"forged": parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2])),
		"empty":  "",
		"none":   "eyJhbGciOiJub25lIn0." + parts[1] + ".",
	} {
		if s := r.redeem(bad, session).GetStatus(); s != wirepb.RedeemStatus_REDEEM_STATUS_REFUSED {
			t.Errorf("%s: %s", name, s)
		}
	}
	if s := r.redeem(token, identity.SessionID{}).GetStatus(); s != wirepb.RedeemStatus_REDEEM_STATUS_REFUSED {
		t.Errorf("no session: %s", s)
	}
	if s := r.redeem(token, session).GetStatus(); s != wirepb.RedeemStatus_REDEEM_STATUS_OK {
		t.Errorf("refusals consumed the ticket: %s", s)
	}
}

// TestI5_LateRedeemIsDropped: what comes after its deadline uses nothing up and gets no answer.
func TestI5_LateRedeemIsDropped(t *testing.T) {
	r := newRig(t)
	token := r.ticket()
	if reply, err := r.tryRedeem(token, identity.NewSessionID(22), time.Now().Add(-deadline.Skew-500*time.Millisecond)); err == nil {
		t.Fatalf("answered %s", reply.GetStatus())
	}
	if s := r.redeem(token, identity.NewSessionID(22)).GetStatus(); s != wirepb.RedeemStatus_REDEEM_STATUS_OK {
		t.Fatalf("the ticket was used up: %s", s)
	}
	// A gateway whose clock is behind is served.
	if reply, err := r.tryRedeem(r.ticket(), identity.NewSessionID(22), time.Now().Add(-time.Second)); err != nil ||
		reply.GetStatus() != wirepb.RedeemStatus_REDEEM_STATUS_OK {
		t.Fatalf("a redeem by a clock that is behind: %s %v", reply.GetStatus(), err)
	}
}

func TestIssueRefusesBadRequests(t *testing.T) {
	r := newRig(t)
	for name, body := range map[string]string{
		"no JSON":       `x`,
		"empty":         ``,
		"unknown field": strings.Replace(aliceRequest, `"groups"`, `"group"`, 1),
		"bad region":    strings.Replace(aliceRequest, `"eu"`, `"e.u"`, 1),
		"bad level":     strings.Replace(aliceRequest, `"master"`, `"king"`, 1),
		"bad glob":      strings.Replace(aliceRequest, `guild-*`, `[`, 1),
		"generation -1": strings.Replace(aliceRequest, `"eu"`, `"eu","generation":-1`, 1),
	} {
		if _, f := r.issue(body); f == nil || f.Code != fault.InvalidRequest {
			t.Errorf("%s: %v", name, f)
		}
	}
}

func TestDrainTurnsOnlyReadinessOff(t *testing.T) {
	r := newRig(t)
	token := r.ticket()
	for _, s := range []*Ticketing{r.a, r.b} {
		if err := s.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.Check() == nil {
			t.Fatal("still ready")
		}
	}
	if s := r.redeem(token, identity.NewSessionID(22)).GetStatus(); s != wirepb.RedeemStatus_REDEEM_STATUS_OK {
		t.Fatalf("a draining instance: %s", s)
	}
	if err := r.a.Undrain(t.Context()); err != nil || r.a.Check() != nil {
		t.Fatalf("not ready again: %v, %v", err, r.a.Check())
	}
}

// TestStopLosesNoRequest: while one of two instances stops, every request is answered.
func TestStopLosesNoRequest(t *testing.T) {
	r := newRig(t)
	stopped := make(chan error, 1)
	for i := range 200 {
		if i == 50 {
			go func() { stopped <- r.a.Stop(context.Background()) }()
		}
		if s := r.redeem(r.ticket(), identity.NewSessionID(22)).GetStatus(); s != wirepb.RedeemStatus_REDEEM_STATUS_OK {
			t.Fatalf("request %d: %s", i, s)
		}
	}
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"login 0":      func(c *Config) { c.LoginTTL = 0 },
		"login 2h":     func(c *Config) { c.LoginTTL = 2 * time.Hour },
		"reconnect -1": func(c *Config) { c.ReconnectTTL = -1 },
		"short token":  func(c *Config) { c.AdminToken = "short" },
		"no port":      func(c *Config) { c.Listen = "127.0.0.1" },
		"no turns":     func(c *Config) { c.MaxInFlight = 0 },
		"no ledger":    func(c *Config) { c.LedgerMaxBytes = 0 },
		"replicas":     func(c *Config) { c.Replicas = 9 },
	} {
		cfg := testConfig("a")
		change(&cfg)
		_, err := New(cfg, lifecycle.NewNode(lifecycle.Ticketing, "a"), natsconn.Config{URL: "nats://127.0.0.1:1"},
			telemetry.Noop(), slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), "configuration") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
