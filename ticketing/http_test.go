package ticketing

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/ticket"
)

func do(t *testing.T, method, url, auth, body string) (int, []byte, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, data, resp.Header
}

func TestHTTP(t *testing.T) {
	s := start(t, natstest.Server(t).URL(), testConfig("a"))
	good := "Bearer " + adminToken
	for name, c := range map[string]struct {
		method, path, auth, body string
		want                     int
	}{
		"no token":        {"POST", "/v1/tickets", "", aliceRequest, 401},
		"wrong token":     {"POST", "/v1/tickets", good + "x", aliceRequest, 401},
		"basic":           {"POST", "/v1/tickets", "Basic " + adminToken, aliceRequest, 401},
		"bad body":        {"POST", "/v1/tickets", good, `{"x":1}`, 400},
		"too large":       {"POST", "/v1/tickets", good, `{"groups":["` + strings.Repeat("a", maxBodyBytes) + `"]}`, 413},
		"unknown path":    {"GET", "/v1/other", good, "", 404},
		"wrong method":    {"PUT", "/v1/tickets", good, "", 405},
		"good":            {"POST", "/v1/tickets", good, aliceRequest, 200},
		"bearer, small":   {"POST", "/v1/tickets", "bearer " + adminToken, aliceRequest, 200},
		"keys for anyone": {"GET", "/.well-known/jwks.json", "", "", 200},
	} {
		code, body, h := do(t, c.method, s.URL()+c.path, c.auth, c.body)
		if code != c.want || h.Get("Content-Type") != "application/json" || !json.Valid(bytes.TrimSpace(body)) {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	_, jwks, _ := do(t, "GET", s.URL()+"/.well-known/jwks.json", "", "")
	set, err := ticket.ParseKeySet(jwks)
	if err != nil || set.Len() != 2 { // current and next
		t.Fatalf("%d keys, %v", set.Len(), err)
	}
	_, body, _ := do(t, "POST", s.URL()+"/v1/tickets", good, aliceRequest)
	var reply api.TicketReply
	if err := json.Unmarshal(body, &reply); err != nil {
		t.Fatal(err)
	}
	v, err := ticket.NewVerifier(ticket.VerifierConfig{}, set)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(reply.Ticket, time.Now()); err != nil {
		t.Fatal(err)
	}
}

func TestAdminCallsNeedAConfiguredToken(t *testing.T) {
	cfg := testConfig("a")
	cfg.AdminToken = ""
	s := start(t, natstest.Server(t).URL(), cfg)
	if code, _, _ := do(t, "POST", s.URL()+"/v1/tickets", "Bearer ", aliceRequest); code != 401 {
		t.Fatalf("got %d", code)
	}
}
