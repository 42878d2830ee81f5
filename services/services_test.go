package services

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/gateway"
	"github.com/switchyard-io/switchyard/services/operator"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTableOrder: each service is there once, after what it needs.
func TestTableOrder(t *testing.T) {
	var seen []string
	for _, r := range table {
		if slices.Contains(seen, r.service) {
			t.Errorf("%s is there twice", r.service)
		}
		for _, n := range r.needs {
			if !slices.Contains(seen, n) {
				t.Errorf("%s comes before %s, which it needs", r.service, n)
			}
		}
		seen = append(seen, r.service)
	}
	slices.Sort(seen)
	if !slices.Equal(seen, []string{lifecycle.Authority, lifecycle.Gateway, lifecycle.Ticketing, lifecycle.Worldrouter}) {
		t.Errorf("services %v", seen)
	}
}

func TestNextPort(t *testing.T) {
	for _, c := range []struct {
		addr string
		n    int
		want string
		err  error
	}{
		{"127.0.0.1:7000", 0, "127.0.0.1:7000", nil},
		{"127.0.0.1:7000", 1, "127.0.0.1:7001", nil},
		{"[::1]:7000", 2, "[::1]:7002", nil},
		{":7000", 1, ":7001", nil},
		{"127.0.0.1:0", 5, "127.0.0.1:0", nil},
		{"", 3, "", nil},
		{"127.0.0.1:65535", 1, "", ErrConfig},
		{"127.0.0.1", 1, "", ErrConfig},
		{"127.0.0.1:http", 1, "", ErrConfig},
	} {
		got, err := nextPort(c.addr, c.n)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q + %d: %q, %v", c.addr, c.n, got, err)
		}
	}
}

func TestAdminTokenIsMadeOnceAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	token := func(configured string) string {
		t.Helper()
		d, err := openDataDir(path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := d.close(); err != nil {
				t.Error(err)
			}
		}()
		got, err := d.adminToken(configured)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	configured := strings.Repeat("c", lifecycle.MinTokenBytes)
	if token(configured) != configured {
		t.Error("the configured token is not taken")
	}
	made := token("")
	if len(made) < lifecycle.MinTokenBytes || token("") != made {
		t.Error("the token is short, or another at the second start")
	}
	file := filepath.Join(path, operator.TokenFile)
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(file, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := openDataDir(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.adminToken(""); !errors.Is(err, ErrDataDir) {
		t.Errorf("a short token: %v", err)
	}
	if _, err := openDataDir(path); !errors.Is(err, ErrDataDir) {
		t.Errorf("a folder in use: %v", err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, c := range map[string]Config{
		"no folder":   {Gateways: 1},
		"no gateways": {DataDir: "x"},
		"too many":    {DataDir: "x", Gateways: MaxGateways + 1},
		"less than 0": {DataDir: "x", Gateways: -1},
	} {
		if err := c.Validate(); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOpenAdminListenerNeedsAChosenToken: as it does in a process of one service.
func TestOpenAdminListenerNeedsAChosenToken(t *testing.T) {
	t.Setenv("GATEWAY_ADMIN_LISTEN", "0.0.0.0:7010")
	if _, err := FromEnvironment(); !errors.Is(err, lifecycle.ErrAdminConfig) {
		t.Errorf("without a token: %v", err)
	}
	t.Setenv("SWITCHYARD_ADMIN_TOKEN", strings.Repeat("x", lifecycle.MinTokenBytes))
	if _, err := FromEnvironment(); err != nil {
		t.Errorf("with a token: %v", err)
	}
	t.Setenv("GATEWAY_ADMIN_LISTEN", "127.0.0.1:7010")
	t.Setenv("SWITCHYARD_ADMIN_TOKEN", "")
	if _, err := FromEnvironment(); err != nil {
		t.Errorf("on loopback: %v", err)
	}
}

// TestHelpListsEachVariableOnce, and only those that the process reads.
func TestHelpListsEachVariableOnce(t *testing.T) {
	c := Command()
	var out strings.Builder
	c.SetOut(&out)
	c.SetArgs([]string{"--help"})
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for line := range strings.Lines(out.String()) {
		if name, _, ok := strings.Cut(line, " "); ok {
			count[name]++
		}
	}
	for name, n := range count {
		if n > 1 && strings.Contains(name, "_") {
			t.Errorf("%s is there %d times", name, n)
		}
	}
	for name, n := range map[string]int{
		"SWITCHYARD_REPLICAS": 1, "SWITCHYARD_ADMIN_TOKEN": 1, "GATEWAY_ADMIN_LISTEN": 1, "TICKETING_LISTEN": 1,
		"AUTHORITY_ADMIN_LISTEN": 0, "TICKETING_ADMIN_LISTEN": 0, "WORLDROUTER_ADMIN_LISTEN": 0,
	} {
		if count[name] != n {
			t.Errorf("%s is there %d times, want %d", name, count[name], n)
		}
	}
}

func TestDemoOrigins(t *testing.T) {
	for _, c := range []struct {
		listen string
		listed bool
		want   int
		has    string
	}{
		{"127.0.0.1:7000", false, 6, "http://localhost:7001"},
		{"localhost:7000", false, 6, "http://127.0.0.1:7000"},
		{"[::1]:7000", false, 6, "http://[::1]:7001"},
		{"127.0.0.1:0", false, 0, ""},
		{"0.0.0.0:7000", false, 0, ""},
		{":7000", false, 0, ""},
		{"example.org:7000", false, 0, ""},
		{"127.0.0.1:7000", true, 6, "http://localhost:7001"},
		{":7000", true, 6, "http://localhost:7001"},
		{"0.0.0.0:7000", true, 6, "http://127.0.0.1:7000"},
		{"example.org:7000", true, 2, "http://example.org:7001"},
		{"127.0.0.1:0", true, 0, ""},
	} {
		got, err := demoOrigins(c.listen, 2, c.listed)
		if err != nil || len(got) != c.want || c.want > 0 && !slices.Contains(got, c.has) {
			t.Errorf("%s: %v, %v", c.listen, got, err)
		}
	}
}

// A configured list neither loses its origins to the demo page, nor shuts the page out.
func TestOriginsWithTheDemoPage(t *testing.T) {
	s := &site{settings: Settings{Config: Config{Gateways: 2, Demo: true}, Gateway: gateway.Config{
		Listen: "127.0.0.1:7000", AllowedOrigins: []string{"https://game.example"},
	}}}
	got, err := s.origins()
	if err != nil || !slices.Contains(got, "https://game.example") || !slices.Contains(got, "http://localhost:7001") {
		t.Errorf("%v, %v", got, err)
	}
	s.settings.Demo = false
	if got, err = s.origins(); err != nil || !slices.Equal(got, []string{"https://game.example"}) {
		t.Errorf("without the page: %v, %v", got, err)
	}
}
