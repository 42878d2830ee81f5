package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTaxonomy pins the table of the protocol.
func TestTaxonomy(t *testing.T) {
	for _, c := range []struct {
		err       *fault.Error
		code      string
		status    int
		retryable bool
	}{
		{fault.ErrInvalidRequest, "INVALID_REQUEST", 400, false},
		{fault.ErrUnauthenticated, "UNAUTHENTICATED", 401, false},
		{fault.ErrForbidden, "FORBIDDEN", 403, false},
		{fault.ErrBanned, "BANNED", 403, false},
		{fault.ErrSessionRevoked, "SESSION_REVOKED", 403, false},
		{fault.ErrNotFound, "NOT_FOUND", 404, false},
		{fault.ErrRouteNotFound, "ROUTE_NOT_FOUND", 404, false},
		{fault.ErrDuplicateSession, "DUPLICATE_SESSION", 409, false},
		{fault.ErrTooLarge, "TOO_LARGE", 413, false},
		{fault.ErrRateLimited, "RATE_LIMITED", 429, true},
		{fault.ErrQueueFull, "QUEUE_FULL", 429, true},
		{fault.ErrRealmFull, "REALM_FULL", 503, true},
		{fault.ErrMaintenance, "MAINTENANCE", 503, true},
		{fault.ErrUnavailable, "UNAVAILABLE", 503, true},
		{fault.ErrTimeout, "TIMEOUT", 504, true},
		{fault.ErrInternal, "INTERNAL", 500, false},
	} {
		if string(c.err.Code) != c.code || c.err.Code.HTTPStatus() != c.status || c.err.Code.Retryable() != c.retryable || c.err.Message == "" {
			t.Errorf("%s: %+v, status %d, retryable %v", c.code, c.err, c.err.Code.HTTPStatus(), c.err.Code.Retryable())
		}
	}
	if c := fault.Code("WORLD_CODE"); c.HTTPStatus() != 500 || c.Retryable() {
		t.Error("a code of a World is known")
	}
}

func TestCloseCodes(t *testing.T) {
	for c, want := range map[fault.CloseCode]string{
		4000: "draining", 4001: "slow consumer", 4002: "idle timeout", 4003: "authentication timeout", 4004: "rate limited",
		4005: "lease lost", 4006: "internal", 4500: "protocol violation", 4501: "unauthenticated", 4502: "replaced by another session",
		4503: "revoked", 4504: "banned", 4505: "forced logout", 4506: "message too big", 4999: "closed",
	} {
		if c.String() != want || c.Reconnect() != (c < 4500) {
			t.Errorf("%d: %q, reconnect %v", c, c, c.Reconnect())
		}
	}
}

func TestErrorsMatchByCode(t *testing.T) {
	cause := errors.New("disk on fire")
	err := fmt.Errorf("outer: %w", fault.Wrap(fault.QueueFull, "too much", cause))
	if !errors.Is(err, fault.ErrQueueFull) || errors.Is(err, fault.ErrTimeout) || !errors.Is(err, cause) {
		t.Fatal("Is")
	}
	if !strings.Contains(err.Error(), "disk on fire") {
		t.Fatal("logs lose the cause")
	}
	if e := fault.From(err); e.Code != fault.QueueFull || strings.Contains(string(e.JSON()), "disk") {
		t.Fatalf("a caller sees %s", e.JSON())
	}
	if fault.From(nil) != nil {
		t.Fatal("From(nil)")
	}
	if e := fault.From(fmt.Errorf("x: %w", context.DeadlineExceeded)); e.Code != fault.Timeout {
		t.Fatalf("a deadline is %s", e.Code)
	}
	if e := fault.From(cause); e.Code != fault.Internal || strings.Contains(string(e.JSON()), "disk") || !errors.Is(e, cause) {
		t.Fatalf("an unknown error is %s", e.JSON())
	}
}

func TestAfterLeavesTheSentinelAlone(t *testing.T) {
	e := fault.ErrRateLimited.After(1500 * time.Millisecond)
	if fault.ErrRateLimited.RetryAfter != 0 || !errors.Is(e, fault.ErrRateLimited) {
		t.Fatal("the sentinel changed")
	}
	if got := string(e.JSON()); got != `{"code":"RATE_LIMITED","message":"too many requests","retryable":true,"retry_after_ms":1500}` {
		t.Fatal(got)
	}
	if got := string(fault.ErrBanned.JSON()); got != `{"code":"BANNED","message":"banned","retryable":false}` {
		t.Fatal(got)
	}
	w := httptest.NewRecorder()
	e.WriteHTTP(w)
	if w.Code != 429 || w.Header().Get("Retry-After") != "2" || w.Header().Get("Content-Type") != "application/json" || w.Body.String() != string(e.JSON()) {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
}

func TestBodyRoundTrip(t *testing.T) {
	e := fault.Newf(fault.RealmFull, "realm %s is full", "main").After(250 * time.Millisecond)
	var b fault.Body
	if err := json.Unmarshal(e.JSON(), &b); err != nil {
		t.Fatal(err)
	}
	if back := b.Err(); back.Code != e.Code || back.Message != e.Message || back.RetryAfter != e.RetryAfter {
		t.Fatalf("%+v", back)
	}
}

func TestOverNATS(t *testing.T) {
	server := natstest.Server(t)
	there, here := natstest.Conn(t, server.URL()), natstest.Conn(t, server.URL())
	want := fault.ErrUnavailable.After(time.Second)
	answers := map[string]func(*nats.Msg) error{
		"fault.error": want.Respond,
		"fault.fine":  func(m *nats.Msg) error { return m.Respond([]byte(`{"code":"X"}`)) },
		"fault.headers": func(m *nats.Msg) error { // another program's service error, without our body
			r := nats.NewMsg(m.Reply)
			r.Header.Set("Nats-Service-Error-Code", "404")
			r.Header.Set("Nats-Service-Error", "no such thing")
			return m.RespondMsg(r)
		},
	}
	for s, answer := range answers {
		if _, err := there.Subscribe(s, func(m *nats.Msg) {
			if err := answer(m); err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := there.Flush(); err != nil {
		t.Fatal(err)
	}
	ask := func(s string) *nats.Msg {
		m, err := here.Request(s, nil, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := ask("fault.error")
	if e := fault.FromMsg(m); e == nil || e.Code != want.Code || e.RetryAfter != time.Second || m.Header.Get("Nats-Service-Error") != want.Message {
		t.Fatalf("%+v %v", e, m.Header)
	}
	if e := fault.FromMsg(ask("fault.fine")); e != nil {
		t.Fatalf("%+v", e)
	}
	if e := fault.FromMsg(ask("fault.headers")); e == nil || e.Code != "404" || e.Message != "no such thing" {
		t.Fatalf("%+v", e)
	}
	if err := want.Respond(&nats.Msg{Subject: "x"}); err != nil {
		t.Fatalf("a message without reply: %v", err)
	}
}
