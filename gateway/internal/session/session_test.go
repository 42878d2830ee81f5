package session_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/gateway/internal/owner"
	"github.com/switchyard-io/switchyard/gateway/internal/session"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
)

const login = `{"id":1,"route":1,"payload":{"ticket":"t","device":{"id":"d1","flag":"web"}}}`

// bubble runs a test in synthetic time and closes what it opened.
func bubble(t *testing.T, change func(*session.Config), f func(*testing.T, *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, change)
		defer h.closeAll()
		f(t, h)
	})
}

// enter opens a session and has it authenticated.
func (h *harness) enter(t *testing.T, c *fakeConn) *session.Session {
	t.Helper()
	s := h.open(c)
	s.Message(c.codec.Append(nil, frame.Frame{Kind: frame.KindRequest, Route: 1, ID: 1, Payload: []byte(`{"ticket":"t"}`)}))
	synctest.Wait()
	if f := c.only(t); f.Kind != frame.KindResponse || f.Route != 1 || f.ID != 1 {
		t.Fatalf("not authenticated: %+v %s", f, f.Payload)
	}
	return s
}

func TestAuthenticateAnswer(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		c := &fakeConn{}
		s := h.open(c)
		s.Message([]byte(login))
		synctest.Wait()
		var got map[string]any
		if err := json.Unmarshal(c.only(t).Payload, &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"session_id": s.ID().String(), "gateway_id": "g1", "resumed": false, "replayed": 0.0,
			"heartbeat_interval_ms": 25000.0, "idle_timeout_ms": 75000.0,
		}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%s is %v, want %v", k, got[k], v)
			}
		}
		if who := got["identity"].(map[string]any); who["user_id"] != "alice" || who["generation"] != 1.0 {
			t.Errorf("identity %v", who)
		}
		if r := got["reconnect"].(map[string]any); r["ticket"] != "r" || r["expires_in_seconds"] != 1800.0 {
			t.Errorf("reconnect %v", r)
		}
		if d := s.Device(); d.ID != "d1" || d.Flag != "web" || d.Level != identity.LevelSlave {
			t.Errorf("device %+v", d)
		}
	})
}

func TestNumericIdentityOnELR2(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		var accepts []error
		grant := session.Grant{Identity: identity.Identity{AccountID: "7", UserID: "8", RegionID: "1", RealmID: "2", Generation: 3}}
		h.activate = func(_ context.Context, a *session.Attempt) error {
			for _, id := range []identity.Identity{grant.Identity, alice, {AccountID: "7", UserID: "08", RegionID: "1", RealmID: "2"},
				{AccountID: "7", UserID: "8", RegionID: "4294967296", RealmID: "2"}} {
				accepts = append(accepts, a.Accepts(id))
			}
			h.reg.MarkActive(h.committed(a))
			return a.Announce(grant, session.Reconnect{})
		}
		c := &fakeConn{codec: frame.ELR2}
		s := h.open(c)
		s.Message(frame.ELR2.Append(nil, frame.Frame{Kind: frame.KindRequest, Route: 1, ID: 9, Payload: []byte(`{"ticket":"t"}`)}))
		synctest.Wait()
		if f := c.only(t); f.ID != 9 || !strings.Contains(string(f.Payload), `"identity":{"account_id":7,"user_id":8,"region_id":1,"realm_id":2,"generation":3}`) {
			t.Fatalf("answer %+v %s", f, f.Payload)
		}
		if accepts[0] != nil || accepts[1] == nil || accepts[2] == nil || accepts[3] == nil {
			t.Fatalf("accepts: %v", accepts)
		}
		s.End(owner.Ending{Code: fault.CloseReplaced, Action: owner.DuplicateLogin, Reason: "x"})
		if f := c.only(t); f.Kind != frame.KindPush || f.Route != 4 || f.Seq != 0 || string(f.Payload) != "\x08\x03\x12\x01x" {
			t.Fatalf("control %+v %q", f, f.Payload)
		}
	})
}

func TestRefusals(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		h.activate = func(context.Context, *session.Attempt) error { return fault.ErrUnauthenticated }
		c := &fakeConn{}
		s := h.open(c)
		for try := range session.MaxTries {
			if c.closeCode() != 0 {
				t.Fatalf("closed after %d tries", try)
			}
			s.Message([]byte(login))
			synctest.Wait()
			if code := c.errorCode(t); code != fault.Unauthenticated {
				t.Fatal(code)
			}
		}
		if c.closeCode() != fault.CloseUnauthenticated {
			t.Fatalf("close %d", c.closeCode())
		}
	})
	for refusal, want := range map[*fault.Error]fault.CloseCode{fault.ErrBanned: fault.CloseBanned, fault.ErrSessionRevoked: fault.CloseRevoked} {
		bubble(t, nil, func(t *testing.T, h *harness) {
			h.activate = func(context.Context, *session.Attempt) error { return refusal }
			c := &fakeConn{}
			h.open(c).Message([]byte(login))
			synctest.Wait()
			if code := c.errorCode(t); code != refusal.Code || c.closeCode() != want {
				t.Fatalf("%s, close %d", code, c.closeCode())
			}
		})
	}
}

// TestEndedWhileAuthenticating: what the close of a session under way says to a client that may
// come back. One that was replaced or kicked must not, or it would throw out the winner.
func TestEndedWhileAuthenticating(t *testing.T) {
	for _, tc := range []struct {
		end  owner.Ending
		want fault.Code
	}{
		{owner.Ending{Code: fault.CloseReplaced, Action: owner.DuplicateLogin}, fault.DuplicateSession},
		{owner.Ending{Code: fault.CloseForcedLogout, Action: owner.Kick}, fault.Forbidden},
		{owner.Ending{Code: fault.CloseBanned, Action: owner.Kick}, fault.Banned},
		{owner.Ending{Code: fault.CloseDraining, Action: session.ServerDraining}, fault.Unavailable},
	} {
		bubble(t, nil, func(t *testing.T, h *harness) {
			h.activate = func(ctx context.Context, _ *session.Attempt) error { <-ctx.Done(); return ctx.Err() }
			c := &fakeConn{}
			s := h.open(c)
			s.Message([]byte(login))
			synctest.Wait()
			s.Message([]byte(login)) // a second one meanwhile is not taken for one that came too late
			if f := c.only(t); !strings.Contains(string(f.Payload), "authentication is under way") {
				t.Errorf("pipelined: %s", f.Payload)
			}
			s.End(tc.end)
			var b fault.Body
			fs := c.frames(t)
			if len(fs) != 2 || fs[0].ID != 1 || json.Unmarshal(fs[0].Payload, &b) != nil {
				t.Fatalf("%+v", fs)
			}
			if b.Code != tc.want || b.Retryable != (tc.want == fault.Unavailable) || c.closeCode() != tc.end.Code {
				t.Errorf("%d: %+v, closed %d", tc.end.Code, b, c.closeCode())
			}
		})
	}
}

func TestMalformedDeviceIsNamed(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		c := &fakeConn{}
		s := h.open(c)
		for device, want := range map[string]string{`{"flag":"UPPER"}`: "device.flag is malformed", `{"id":"a\u0007"}`: "device.id is malformed"} {
			s.Message([]byte(`{"id":1,"route":1,"payload":{"ticket":"t","device":` + device + `}}`))
			if f := c.only(t); !strings.Contains(string(f.Payload), want) {
				t.Errorf("%s: %s", device, f.Payload)
			}
		}
	})
}

func TestSecondTrySucceeds(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		h.activate = func(context.Context, *session.Attempt) error { return fault.ErrRealmFull }
		c := &fakeConn{}
		s := h.open(c)
		s.Message([]byte(login))
		synctest.Wait()
		if code := c.errorCode(t); code != fault.RealmFull {
			t.Fatal(code)
		}
		h.activate = nil
		s.Message([]byte(login))
		synctest.Wait()
		if f := c.only(t); f.Kind != frame.KindResponse {
			t.Fatalf("%+v", f)
		}
	})
}

func TestBadFrames(t *testing.T) {
	before := []struct {
		msg  string
		want fault.Code
	}{
		{`{"id":1,"route":100}`, fault.Unauthenticated},
		{`{"id":1,"route":2}`, fault.Unauthenticated},
		{`{"id":1,"route":8}`, fault.Unauthenticated},
		{`{"kind":"push","id":1,"route":100}`, fault.Unauthenticated},
		{`{"kind":"response","id":1,"route":2}`, fault.Unauthenticated},
		{`{"id":1,"route":2,"seq":7}`, fault.Unauthenticated},
		{`{"route":2}`, fault.Unauthenticated},
		{`{"kind":"push","id":1,"route":1}`, fault.InvalidRequest},
		{`{"id":1,"route":1,"payload":{"ticket":"t","extra":1}}`, fault.InvalidRequest},
		{`{"id":1,"route":1,"payload":{"ticket":"t","device":{"level":"master"}}}`, fault.InvalidRequest},
		{`{"id":1,"route":1,"payload":{"ticket":"t","device":{"flag":"UPPER"}}}`, fault.InvalidRequest},
		{`{"id":1,"route":1,"payload":{"ticket":"t","device":{"id":"\ud800"}}}`, fault.InvalidRequest},
		{`{"id":1,"route":1,"payload":{}}`, fault.InvalidRequest},
		{`{"id":1,"route":1,"payload":[]}`, fault.InvalidRequest},
		{`{"id":1,"route":1}`, fault.InvalidRequest},
		{`{"id":1,"route":1,"seq":3,"payload":{"ticket":"t"}}`, fault.InvalidRequest},
		{`{"route":1,"payload":{"ticket":"t"}}`, fault.InvalidRequest},
		{`{"id":1}`, fault.InvalidRequest},
		{`{"id":1,"route":1,"more":1}`, fault.InvalidRequest},
	}
	after := []struct {
		msg  string
		want fault.Code
	}{
		{login, fault.InvalidRequest},
		{`{"kind":"push","id":1,"route":100}`, fault.InvalidRequest},
		{`{"id":1,"route":8}`, fault.InvalidRequest},
		{`{"id":1,"route":4}`, fault.InvalidRequest},
		{`{"id":1,"route":100,"payload":{}}`, fault.RouteNotFound},
		{`{"id":1,"route":2,"payload":{"x":1}}`, fault.InvalidRequest},
		{`{"id":1,"route":2,"payload":{"last_seq":-1}}`, fault.InvalidRequest},
		{`{"id":1,"route":2,"payload":{"last_seq":4294967296}}`, fault.InvalidRequest},
		{`{"id":1,"route":2,"payload":{"last_seq":1,"last_seq":2}}`, fault.InvalidRequest},
		{`{"id":1,"route":3,"payload":{}}`, fault.InvalidRequest},
		{`{"id":1,"route":5,"payload":{"seqs":[-1]}}`, fault.InvalidRequest},
		{`{"id":1,"route":6,"payload":{"group":"no/good"}}`, fault.InvalidRequest},
		{`{"id":1,"route":6,"payload":{"group":"secret"}}`, fault.Forbidden},
		{`{"id":1,"route":7,"payload":{"group":"secret"}}`, fault.Forbidden},
	}
	bubble(t, func(c *session.Config) { c.MaxViolations = 100 }, func(t *testing.T, h *harness) {
		c := &fakeConn{}
		s := h.open(c)
		for _, b := range before {
			s.Message([]byte(b.msg))
			synctest.Wait()
			if code := c.errorCode(t); code != b.want {
				t.Errorf("before: %s: %s", b.msg, code)
			}
		}
		s.Message([]byte(login))
		synctest.Wait()
		c.frames(t)
		for _, b := range after {
			s.Message([]byte(b.msg))
			if code := c.errorCode(t); code != b.want {
				t.Errorf("after: %s: %s", b.msg, code)
			}
		}
		if c.closeCode() != 0 {
			t.Fatalf("closed with %d", c.closeCode())
		}
	})
}

func TestViolationsInARow(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		c := &fakeConn{}
		s := h.enter(t, c)
		for round := range 2 {
			for range 9 {
				s.Message([]byte(`{"id":1,"route":8}`))
			}
			if round == 0 {
				s.Message([]byte(`{"id":1,"route":2}`)) // a good one in between
			}
		}
		if c.closeCode() != 0 {
			t.Fatalf("closed early with %d", c.closeCode())
		}
		s.Message([]byte(`{"id":1,"route":8}`))
		if c.closeCode() != fault.CloseProtocolViolation {
			t.Fatalf("close %d", c.closeCode())
		}
	})
	bubble(t, nil, func(t *testing.T, h *harness) {
		c := &fakeConn{}
		h.enter(t, c).Message([]byte(`hello`))
		if c.closeCode() != fault.CloseProtocolViolation || len(c.frames(t)) != 0 {
			t.Fatalf("close %d", c.closeCode())
		}
	})
}

func TestRoutesOfAnActiveSession(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		h.renew = func(context.Context) (session.Reconnect, error) {
			return session.Reconnect{Ticket: "n", ExpiresInSeconds: 9}, nil
		}
		c := &fakeConn{}
		s := h.enter(t, c)
		for _, msg := range []string{
			`{"id":2,"route":2}`, `{"id":2,"route":2,"payload":{"last_seq":4}}`, `{"id":2,"route":2,"payload":{ "last_seq" : 0 }}`, `{"id":2,"route":5,"payload":{"seqs":[1,2]}}`,
			`{"id":2,"route":6,"payload":{"group":"room-1"}}`, `{"id":2,"route":7,"payload":{"group":"room-1"}}`,
		} {
			s.Message([]byte(msg))
			if f := c.only(t); f.Kind != frame.KindResponse || f.ID != 2 || f.Payload != nil {
				t.Fatalf("%s: %+v", msg, f)
			}
		}
		s.Message([]byte(`{"kind":"response","id":2,"route":2}`))
		if fs := c.frames(t); len(fs) != 0 {
			t.Fatalf("answered a response: %+v", fs)
		}
		s.Message([]byte(`{"id":3,"route":3,"payload":{"ticket":"r"}}`))
		synctest.Wait()
		if f := c.only(t); string(f.Payload) != `{"ticket":"n","expires_in_seconds":9}` {
			t.Fatalf("renew: %+v %s", f, f.Payload)
		}
		s.Closed(0)
		if want := []string{"+room-1", "-room-1", "-all"}; !slices.Equal(h.joins, want) {
			t.Fatalf("groups %v", h.joins)
		}
	})
}

func TestI12_RequestsInFlightAreBounded(t *testing.T) {
	bubble(t, nil, func(t *testing.T, h *harness) {
		h.renew = func(ctx context.Context) (session.Reconnect, error) {
			<-ctx.Done()
			return session.Reconnect{}, ctx.Err()
		}
		c := &fakeConn{}
		s := h.enter(t, c)
		for range 3 {
			s.Message([]byte(`{"id":3,"route":3,"payload":{"ticket":"r"}}`))
		}
		if code := c.errorCode(t); code != fault.QueueFull {
			t.Fatal(code)
		}
		<-time.After(6 * time.Second) // synthetic: past RequestTimeout
		synctest.Wait()
		for _, f := range c.frames(t) {
			if f.Kind != frame.KindError || !strings.Contains(string(f.Payload), "TIMEOUT") {
				t.Fatalf("%+v %s", f, f.Payload)
			}
		}
	})
}

func TestRateLimit(t *testing.T) {
	bubble(t, func(c *session.Config) { c.RequestRate, c.RequestBurst = 10, 5 }, func(t *testing.T, h *harness) {
		c := &fakeConn{}
		s := h.enter(t, c)
		for range 6 {
			s.Message([]byte(`{"id":2,"route":2}`))
		}
		fs := c.frames(t)
		if len(fs) != 6 || fs[4].Kind != frame.KindResponse || !strings.Contains(string(fs[5].Payload), `"RATE_LIMITED"`) ||
			!strings.Contains(string(fs[5].Payload), `"retry_after_ms":100`) {
			t.Fatalf("%+v %s", fs, fs[5].Payload)
		}
		<-time.After(time.Second)
		s.Message([]byte(`{"id":2,"route":2}`))
		if f := c.only(t); f.Kind != frame.KindResponse {
			t.Fatalf("%+v", f)
		}
		for range 40 {
			s.Message([]byte(`{"id":2,"route":2}`))
		}
		if c.closeCode() != fault.CloseRateLimited {
			t.Fatalf("close %d", c.closeCode())
		}
	})
}
