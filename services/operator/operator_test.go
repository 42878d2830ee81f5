package operator

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/subject"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend answers one subject with a fixed reply, and keeps what it was asked.
type backend struct {
	t     *testing.T
	nc    *nats.Conn
	asked chan []byte
}

// newBackend starts a NATS server, and points the command line to it.
func newBackend(t *testing.T) *backend {
	url := natstest.Server(t).URL()
	t.Setenv("NATS_URL", url)
	return &backend{t: t, nc: natstest.Conn(t, url), asked: make(chan []byte, 16)}
}

func (b *backend) answer(subject, reply string, f *fault.Error) {
	b.t.Helper()
	_, err := b.nc.Subscribe(subject, func(m *nats.Msg) {
		b.asked <- m.Data
		if f != nil {
			_ = f.Respond(m) // the command's time-out tells
			return
		}
		_ = m.Respond([]byte(reply))
	})
	if err == nil {
		err = b.nc.Flush()
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// run runs a command line.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	root := Root()
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	code = Execute(t.Context(), root, args)
	return code, out.String(), errs.String()
}

const session = "0197b2f0-0000-7000-8000-000000000016"

func TestCommands(t *testing.T) {
	b := newBackend(t)
	b.answer(subject.TicketIssue, `{"ticket":"a.b.c","expires_in_seconds":60}`, nil)
	b.answer(subject.Presence, `{"users":[{"uid":"eu/main/alice","status":"online","sessions":[{"session_id":"`+session+`","gateway_id":"gw-1","boot_id":"b","owner_seq":1,"device":{"id":"d1","flag":"pc","level":"master"},"listener":"ws","connected_at":"2026-01-01T00:00:00.000Z","last_active_at":"2026-01-01T00:00:00.000Z"}]},{"uid":"eu/main/bob","status":"unknown","sessions":[]}]}`, nil)
	b.answer(subject.Push, `{"delivered":1,"acked":1,"sessions":[{"uid":"eu/main/alice","session_id":"`+session+`","gateway_id":"gw-1","status":"acked"}],"offline":["eu/main/bob"],"unknown":[],"errors":[{"uid":"eu/main/eve","code":"TIMEOUT"}]}`, nil)
	b.answer(subject.Kick, `{"kicked":2}`, nil)
	b.answer(subject.Slots, `{"slots":[{"slot_id":3,"hash_slots":[3,35],"leader_node":"auth-1","leader_boot":"b","term":7,"config_epoch":1,"state":"active","routes":12}]}`, nil)
	b.answer(subject.Nodes, `{"nodes":[{"node_id":"gw-1","service":"gateway","boot_id":"b","state":"ready","version":"0.1.0","started_at":"2026-01-01T00:00:00.000Z","sessions":9}]}`, nil)

	for name, c := range map[string]struct {
		args  []string
		asks  string   // the request, as JSON
		shows []string // the output has these
	}{
		"ticket": {
			[]string{"ticket", "eu/main/alice"},
			`{"identity":{"account_id":"alice","user_id":"alice","region_id":"eu","realm_id":"main"}}`,
			[]string{"a.b.c\n"},
		},
		"ticket in full": {
			[]string{"ticket", "eu/main/alice", "--account", "acc", "--generation", "3", "--device", "d1", "--flag", "pc", "--level", "master", "--group", "g-*", "--group", "lobby"},
			`{"identity":{"account_id":"acc","user_id":"alice","region_id":"eu","realm_id":"main","generation":3},"device":{"id":"d1","flag":"pc","level":"master"},"groups":["g-*","lobby"]}`,
			[]string{"a.b.c\n"},
		},
		"who": {
			[]string{"who", "eu/main/alice", "eu/main/bob"},
			`{"users":["eu/main/alice","eu/main/bob"]}`,
			[]string{"eu/main/alice  online", session, "gw-1", "pc/master d1", "eu/main/bob    unknown"},
		},
		"push": {
			[]string{"push", "eu/main/alice", "eu/main/bob", "--payload", `{"x":1}`, "--route", "120", "--ack", "--message-id", "m1"},
			`{"users":["eu/main/alice","eu/main/bob"],"route":120,"payload":{"x":1},"ack":true,"ack_timeout_ms":3000,"message_id":"m1"}`,
			[]string{"delivered 1, acknowledged 1", "acked", "eu/main/bob    -", "offline", "TIMEOUT"},
		},
		"push text to a group": {
			[]string{"push", "--group", "lobby", "--text", "hi", "--exclude", session},
			`{"groups":["lobby"],"route":100,"payload_b64":"aGk=","exclude_sessions":["` + session + `"]}`,
			[]string{"delivered 1"},
		},
		"kick": {
			[]string{"kick", "eu/main/alice", "--reason", "spam", "--except", session},
			`{"uid":"eu/main/alice","reason":"spam","except_session":"` + session + `"}`,
			[]string{"kicked 2\n"},
		},
		"kick a session": {
			[]string{"kick", "--session", session},
			`{"session_id":"` + session + `"}`,
			[]string{"kicked 2\n"},
		},
		"slots": {[]string{"slots"}, `{}`, []string{"active", "auth-1", "7", "12", "3,35"}},
		"nodes": {[]string{"nodes"}, `{}`, []string{"gateway", "gw-1", "ready", "9", "0.1.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := run(t, c.args...)
			if code != 0 || errs != "" {
				t.Fatalf("code %d: %s", code, errs)
			}
			if got := string(<-b.asked); got != c.asks {
				t.Errorf("asked %s, want %s", got, c.asks)
			}
			for _, s := range c.shows {
				if !strings.Contains(out, s) {
					t.Errorf("%q is not in:\n%s", s, out)
				}
			}
			code, out, _ = run(t, append(c.args, "--json")...)
			<-b.asked
			if code != 0 || !json.Valid([]byte(out)) {
				t.Errorf("--json: code %d: %s", code, out)
			}
		})
	}
}

// TestRequestsPassTheServersDecoder: what the tool sends is what the services read.
func TestRequestsPassTheServersDecoder(t *testing.T) {
	b := newBackend(t)
	b.answer(subject.TicketIssue, `{}`, nil)
	if code, _, errs := run(t, "ticket", "eu/main/alice", "--level", "master"); code != 0 {
		t.Fatal(errs)
	}
	var req api.TicketRequest
	if err := api.Decode(<-b.asked, &req); err != nil {
		t.Fatal(err)
	}
	if err := req.Validate(); err != nil || req.Device == nil || req.Device.Flag != "" || req.Device.Level != identity.LevelMaster {
		t.Fatalf("%+v, %v", req.Device, err)
	}
}

func TestFailures(t *testing.T) {
	b := newBackend(t)
	b.answer(subject.Kick, "", fault.New(fault.NotFound, "no such session"))
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"a fault":       {[]string{"kick", "eu/main/alice"}, exitFailed, "NOT_FOUND: no such session"},
		"nobody there":  {[]string{"slots"}, exitFailed, "UNAVAILABLE"},
		"no uid":        {[]string{"who", "alice"}, exitUsage, "uid"},
		"no session":    {[]string{"kick", "--session", "x"}, exitUsage, "session_id"},
		"both":          {[]string{"kick", "eu/main/alice", "--session", session}, exitUsage, "one of"},
		"no arguments":  {[]string{"who"}, exitUsage, "arg"},
		"unknown flag":  {[]string{"slots", "--fast"}, exitUsage, "fast"},
		"not JSON":      {[]string{"push", "eu/main/alice", "--payload", "hello"}, exitUsage, "--text"},
		"no payload":    {[]string{"push", "eu/main/alice"}, exitUsage, "--payload"},
		"two payloads":  {[]string{"push", "eu/main/alice", "--payload", "1", "--text", "1"}, exitUsage, "--payload"},
		"no command":    {[]string{"nope"}, exitUsage, "nope"},
		"small route":   {[]string{"push", "eu/main/alice", "--payload", "1", "--route", "5"}, exitUsage, "route"},
		"no receivers":  {[]string{"push", "--payload", "1"}, exitUsage, "users"},
		"unknown level": {[]string{"ticket", "eu/main/alice", "--level", "king"}, exitUsage, "level"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := run(t, c.args...)
			if code != c.code || out != "" || !strings.Contains(errs, c.says) {
				t.Fatalf("code %d, out %q, err %q", code, out, errs)
			}
			code, out, errs = run(t, append(c.args, "--json")...)
			var body fault.Body
			if err := json.Unmarshal([]byte(errs), &body); err != nil || code != c.code || out != "" {
				t.Fatalf("--json: code %d, out %q, err %q", code, out, errs)
			}
			if usage := body.Code == fault.InvalidRequest; usage != (c.code == exitUsage) {
				t.Errorf("--json: %s", errs)
			}
		})
	}
	code, _, errs := run(t, "kick", "eu/main/alice", "--json")
	var body fault.Body
	if err := json.Unmarshal([]byte(errs), &body); err != nil || code != exitFailed || body.Code != fault.NotFound {
		t.Fatalf("--json: code %d: %s", code, errs)
	}
}

func TestNoServer(t *testing.T) {
	t.Setenv("NATS_URL", "nats://127.0.0.1:1")
	code, _, errs := run(t, "nodes", "--timeout", "200ms")
	if code != exitFailed || !strings.Contains(errs, "UNAVAILABLE") {
		t.Fatalf("code %d: %s", code, errs)
	}
}

func TestDrain(t *testing.T) {
	const token = "0123456789abcdef0123456789abcdef"
	var path string
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.Method + " " + r.URL.Path
		if r.Header.Get("Authorization") != "Bearer "+token {
			fault.ErrUnauthenticated.WriteHTTP(w)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(admin.Close)
	dir := t.TempDir()
	t.Setenv("SWITCHYARD_DATA_DIR", dir)
	if code, _, errs := run(t, "drain", "--admin", admin.URL); code != exitFailed || !strings.Contains(errs, "SWITCHYARD_ADMIN_TOKEN") {
		t.Fatalf("without a token: code %d: %s", code, errs)
	}
	if err := os.WriteFile(filepath.Join(dir, TokenFile), []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := run(t, "drain", "--admin", admin.URL); code != 0 || path != "POST /drain" || !strings.HasPrefix(out, "draining ") {
		t.Fatalf("code %d, %s: %s%s", code, path, out, errs)
	}
	if code, out, _ := run(t, "drain", "--undo", "--admin", admin.URL+"/", "--json"); code != 0 || path != "POST /undrain" || !strings.Contains(out, `"ready"`) {
		t.Fatalf("code %d, %s: %s", code, path, out)
	}
	t.Setenv("SWITCHYARD_ADMIN_TOKEN", "wrong")
	if code, _, errs := run(t, "drain", "--admin", admin.URL); code != exitFailed || !strings.Contains(errs, "UNAUTHENTICATED") {
		t.Fatalf("a wrong token: code %d: %s", code, errs)
	}
}

func TestHelpTellsWhereNATSIs(t *testing.T) {
	for _, command := range []string{"", "ticket", "who", "push", "kick", "slots", "nodes"} {
		code, out, _ := run(t, strings.Fields(command+" --help")...)
		if code != 0 || !strings.Contains(out, "NATS_URL") || !strings.Contains(out, natsconn.DefaultURL) {
			t.Errorf("%q: exit code %d, %s", command, code, out)
		}
	}
}
