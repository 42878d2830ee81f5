package web

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/subject"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves the demo against a NATS server on which answers stand for the suite.
func start(t *testing.T, answers map[string]string) (*httptest.Server, chan *nats.Msg) {
	t.Helper()
	nc := natstest.Conn(t, natstest.Server(t).URL())
	seen := make(chan *nats.Msg, 16)
	for subj, reply := range answers {
		if _, err := nc.Subscribe(subj, func(m *nats.Msg) {
			seen <- m
			_ = m.Respond([]byte(reply)) // the caller's time-out shows a lost answer
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	h, err := Handler(nc, []string{"ws://127.0.0.1:7000/v1/connect"})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv, seen
}

// post sends JSON with extra headers and returns status and body.
func post(t *testing.T, url, body string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return do(t, req)
}

func do(t *testing.T, req *http.Request) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read-only
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

func TestServesThePage(t *testing.T) {
	srv, _ := start(t, nil)
	for path, want := range map[string]string{"/": "<title>Switchyard demo", "/switchyard.js": "export class Switchyard", "/demo.js": "import", "/demo.css": ":root"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if status, body := do(t, req); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, without %q", path, status, want)
		}
	}
}

func TestUnknownPagesAreErrors(t *testing.T) {
	srv, _ := start(t, nil)
	for _, path := range []string{"/nope", "/demo/nope", "/demo/push", "/demo/"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		status, body := do(t, req)
		var f fault.Body
		if status != http.StatusNotFound || json.Unmarshal([]byte(body), &f) != nil || f.Code != fault.NotFound {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

func TestTouchesTheDemoRealmOnly(t *testing.T) {
	srv, seen := start(t, map[string]string{
		subject.TicketIssue: `{"ticket":"t"}`,
		subject.Push:        `{"delivered":1}`,
		subject.Presence:    `{"users":[{"sessions":[]}]}`,
	})
	for path, body := range map[string]string{
		"/demo/ticket":   `{"user":"eu/main/alice"}`,
		"/demo/push":     `{"users":["../alice"],"text":"x"}`,
		"/demo/presence": `{"users":["a"]}`,
	} {
		if status, reply := post(t, srv.URL+path, body); status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, status, reply)
		}
		m := <-seen
		if !bytes.Contains(m.Data, []byte(`"demo/demo/`)) && !bytes.Contains(m.Data, []byte(`"region_id":"demo","realm_id":"demo"`)) {
			t.Errorf("%s asked %s for %s", path, m.Subject, m.Data)
		}
	}
	const session = "01890a5d-ac96-774b-bcce-b302099a8057"
	if status, reply := post(t, srv.URL+"/demo/kick", `{"user":"a","session_id":"`+session+`"}`); status != http.StatusNotFound {
		t.Errorf("kick of a session that is none of the demo's: %d %s", status, reply)
	}
}

func TestRefusesOtherSitesAndRubbish(t *testing.T) {
	srv, _ := start(t, nil)
	for name, c := range map[string]struct {
		path, body string
		header     []string
		status     int
	}{
		"other origin":  {"/demo/gateways", `{}`, []string{"Origin", "http://evil.example"}, http.StatusForbidden},
		"form":          {"/demo/gateways", `{}`, []string{"Content-Type", "text/plain"}, http.StatusForbidden},
		"unknown field": {"/demo/ticket", `{"user":"a","admin":true}`, nil, http.StatusBadRequest},
		"no users":      {"/demo/push", `{"users":[]}`, nil, http.StatusBadRequest},
		"too many":      {"/demo/push", `{"users":["a"` + strings.Repeat(`,"a"`, maxUsers) + `]}`, nil, http.StatusBadRequest},
		"huge":          {"/demo/push", `{"text":"` + strings.Repeat("x", maxBody) + `"}`, nil, http.StatusBadRequest},
		"unknown call":  {"/demo/nope", `{}`, nil, http.StatusNotFound},
		"page by post":  {"/demo.js", `{}`, nil, http.StatusMethodNotAllowed},
		"nobody there":  {"/demo/ticket", `{"user":"a"}`, nil, http.StatusServiceUnavailable},
	} {
		status, body := post(t, srv.URL+c.path, c.body, c.header...)
		var f fault.Body
		if status != c.status || json.Unmarshal([]byte(body), &f) != nil || f.Code == "" {
			t.Errorf("%s: %d %s, want %d", name, status, body, c.status)
		}
	}
}
