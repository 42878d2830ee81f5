package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/shared/fault"
)

const testToken = "0123456789abcdef0123456789abcdef"

var quiet = slog.New(slog.DiscardHandler)

func TestAdminConfig(t *testing.T) {
	for _, c := range []struct {
		listen, token string
		ok            bool
	}{
		{"127.0.0.1:0", "", true},
		{"localhost:0", "", true},
		{"[::1]:0", "", true},
		{"127.0.0.1:0", testToken, true},
		{"0.0.0.0:0", testToken, true},
		{"127.0.0.1:0", testToken[:31], false},
		{"0.0.0.0:0", "", false},
		{":7010", "", false},
		{"example.com:7010", "", false},
		{"nonsense", testToken, false},
	} {
		_, err := NewAdmin(AdminConfig{Listen: c.listen, Token: c.token}, nil, quiet)
		if (err == nil) != c.ok || (err != nil && !errors.Is(err, ErrAdminConfig)) {
			t.Errorf("listen %q, token of %d: %v", c.listen, len(c.token), err)
		}
	}
}

// call asks the admin handler and returns status and body.
func call(a *Admin, method, path, token string) (int, string) {
	r := httptest.NewRequest(method, path, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	a.Handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func admin(t *testing.T, cfg AdminConfig, services ...Service) *Admin {
	t.Helper()
	cfg.Listen = "127.0.0.1:0"
	a, err := NewAdmin(cfg, http.NotFoundHandler(), quiet, services...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return a
}

func TestAdminRefusesWithErrorBodies(t *testing.T) {
	adm := admin(t, AdminConfig{Token: testToken})
	for _, c := range []struct {
		method, path string
		status       int
		code         fault.Code
	}{{"GET", "/nope", 404, fault.NotFound}, {"GET", "/drain", 405, fault.InvalidRequest}, {"POST", "/livez", 405, fault.InvalidRequest}} {
		code, body := call(adm, c.method, c.path, testToken)
		var b fault.Body
		if err := json.Unmarshal([]byte(body), &b); err != nil || code != c.status || b.Code != c.code {
			t.Errorf("%s %s: %d %s", c.method, c.path, code, body)
		}
	}
}

func TestAdminHealth(t *testing.T) {
	j := &journal{}
	a, g := newFake(j, Authority, "a-1"), newFake(j, Gateway, "g-1")
	adm := admin(t, AdminConfig{Token: testToken}, a, g)
	if code, _ := call(adm, "GET", "/livez", ""); code != 200 {
		t.Fatalf("livez %d", code)
	}
	if code, body := call(adm, "GET", "/readyz", ""); code != 503 || !strings.Contains(body, `"message":"authority a-1: starting"`) {
		t.Fatalf("readyz at start: %d %s", code, body)
	}
	_, _ = a.Move(Ready)
	_, _ = g.Move(Ready)
	if code, _ := call(adm, "GET", "/readyz", ""); code != 200 {
		t.Fatalf("readyz %d", code)
	}
	code, body := call(adm, "GET", "/version", "")
	var v versionReply
	if err := json.Unmarshal([]byte(body), &v); code != 200 || err != nil || len(v.Nodes) != 2 || v.Nodes[1].NodeID != "g-1" || v.Version != Version {
		t.Fatalf("version: %d %s", code, body)
	}
}

func TestAdminRefusesWithoutToken(t *testing.T) {
	j := &journal{}
	g := newFake(j, Gateway, "g-1")
	_, _ = g.Move(Ready)
	for _, c := range []struct{ configured, given string }{{testToken, ""}, {testToken, testToken[:31] + "x"}, {"", ""}, {"", testToken}} {
		adm := admin(t, AdminConfig{Token: c.configured}, g)
		for _, path := range []string{"/drain", "/undrain"} {
			if code, body := call(adm, "POST", path, c.given); code != 401 || !strings.Contains(body, "UNAUTHENTICATED") {
				t.Fatalf("%s: %d %s", path, code, body)
			}
		}
	}
	if lines := j.read(); len(lines) != 0 || g.State() != Ready {
		t.Fatalf("something happened: %v", lines)
	}
}

func TestAdminDrainAndUndrain(t *testing.T) {
	j := &journal{}
	a, g1, g2 := newFake(j, Authority, "a-1"), newFake(j, Gateway, "g-1"), newFake(j, Gateway, "g-2")
	for _, f := range []*fake{a, g1, g2} {
		_, _ = f.Move(Ready)
	}
	g2.slow = true
	adm := admin(t, AdminConfig{Token: testToken, DrainTimeout: time.Hour}, a, g1, g2)
	if code, _ := call(adm, "POST", "/drain?node=nobody", testToken); code != 404 {
		t.Fatalf("unknown node: %d", code)
	}
	for range 2 { // the second changes nothing
		if code, _ := call(adm, "POST", "/drain", testToken); code != 202 {
			t.Fatalf("drain %d", code)
		}
	}
	if code, _ := call(adm, "GET", "/readyz", ""); code != 503 {
		t.Fatalf("ready right after the drain: %d", code)
	}
	// The authority's turn does not come while a gateway drains; undrain cuts that short.
	if code, body := call(adm, "POST", "/undrain", testToken); code != 204 {
		t.Fatalf("undrain: %d %s", code, body)
	}
	if code, _ := call(adm, "GET", "/readyz", ""); code != 200 {
		t.Fatalf("readyz after undrain: %d", code)
	}
	lines := j.read()
	if slices.Contains(lines, "drain a-1") || !slices.Contains(lines, "drain g-2") {
		t.Fatalf("order: %v", lines)
	}
	// And again, only one of them.
	if code, _ := call(adm, "POST", "/drain?node=g-1", testToken); code != 202 || g1.State() != Draining || g2.State() != Ready {
		t.Fatalf("drain of one: %d, %s %s", code, g1.State(), g2.State())
	}
}

func TestUndrainOfTheStopped(t *testing.T) {
	g := newFake(&journal{}, Gateway, "g-1")
	_, _ = g.Move(Stopped)
	adm := admin(t, AdminConfig{Token: testToken}, g)
	if code, body := call(adm, "POST", "/undrain", testToken); code != 500 || strings.Contains(body, "transition") {
		t.Fatalf("%d %s", code, body)
	}
}

// TestAdminStopDoesNotWaitForSilentConnections: a prober that connects and sends nothing.
func TestAdminStopDoesNotWaitForSilentConnections(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ctx := range map[string]context.Context{"grace": t.Context(), "canceled": canceled} {
		t.Run(name, func(t *testing.T) { stopWithASilentConnection(t, ctx) })
	}
}

func stopWithASilentConnection(t *testing.T, ctx context.Context) {
	t.Helper()
	a, err := NewAdmin(AdminConfig{Listen: "127.0.0.1:0"}, nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	silent, err := net.Dial("tcp", a.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	resp, err := http.Get("http://" + a.Addr() + "/livez") // by now the silent one is accepted
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	start := time.Now()
	if err := a.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if err := silent.SetReadDeadline(time.Now().Add(4 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := silent.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the silent connection is still open")
	}
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("stop took %s", took)
	}
}
