package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func plan(services ...Service) Plan {
	return Plan{Admin: AdminConfig{Listen: "127.0.0.1:0", Token: testToken}, Log: quiet, Services: services}
}

func TestRunKeepsTheOrder(t *testing.T) {
	j := &journal{}
	p := plan(newFake(j, Authority, "a"), newFake(j, Ticketing, "t"), newFake(j, Gateway, "g"))
	ctx, cancel := context.WithCancel(t.Context())
	p.OnReady = func(addr string) {
		if r, err := http.Get("http://" + addr + "/readyz"); err != nil || r.StatusCode != http.StatusOK {
			t.Errorf("readyz: %v %v", r, err)
		} else {
			_ = r.Body.Close()
		}
		http.DefaultClient.CloseIdleConnections()
		cancel()
	}
	if err := Run(ctx, p); err != nil {
		t.Fatal(err)
	}
	want := []string{"start a", "start t", "start g", "drain g", "drain t", "drain a", "stop g", "stop t", "stop a"}
	if got := j.read(); !slices.Equal(got, want) {
		t.Fatalf("got %v", got)
	}
}

func TestRunStopsAllWhenOneDoesNotStart(t *testing.T) {
	j := &journal{}
	bad := newFake(j, Ticketing, "t")
	bad.startErr = errBroken
	err := Run(t.Context(), plan(newFake(j, Authority, "a"), bad, newFake(j, Gateway, "g")))
	if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "ticketing t") {
		t.Fatalf("got %v", err)
	}
	if got := j.read(); !slices.Equal(got, []string{"start a", "start t", "stop g", "stop t", "stop a"}) {
		t.Fatalf("got %v", got)
	}
}

func TestRunEndsWhenAServiceFails(t *testing.T) {
	j := &journal{}
	g := newFake(j, Gateway, "g")
	p := plan(newFake(j, Authority, "a"), g)
	p.OnReady = func(string) { g.Fail(errBroken) }
	if err := Run(t.Context(), p); !errors.Is(err, errBroken) {
		t.Fatalf("got %v", err)
	}
	if g.State() != Stopped {
		t.Fatalf("left %s", g.State())
	}
}

func TestRunBoundsTheDrain(t *testing.T) {
	j := &journal{}
	g := newFake(j, Gateway, "g")
	g.slow = true
	p := plan(g)
	p.Admin.DrainTimeout = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	p.OnReady = func(string) { cancel() }
	start := time.Now()
	if err := Run(ctx, p); err != nil || time.Since(start) > 5*time.Second {
		t.Fatalf("%v after %v", err, time.Since(start))
	}
}

func TestRunRefusesABadNode(t *testing.T) {
	if err := Run(t.Context(), plan(newFake(&journal{}, Gateway, "not.a.token"))); err == nil {
		t.Fatal("started")
	}
}

type testConfig struct {
	Name string `envconfig:"LIFECYCLE_TEST_NAME" default:"somebody" desc:"who"`
	Size int    `envconfig:"LIFECYCLE_TEST_SIZE" default:"7" desc:"how big"`
}

// invoke runs a command whose service stops as soon as it has started.
func invoke(t *testing.T, args ...string) (code int, stdout, stderr string, cfg testConfig) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs bytes.Buffer
	c := command{name: "gateway", specs: []any{&cfg}, args: args, stdout: &out, stderr: &errs,
		build: func(_ context.Context, env Env) (Service, AdminConfig, error) {
			adm := AdminConfig{Listen: "127.0.0.1:0", Token: env.AdminToken}
			if cfg.Size < 0 {
				return nil, adm, errBroken
			}
			node, tel, err := env.Node("n-1")
			if err != nil || tel == nil {
				return nil, adm, err
			}
			cancel() // a signal that comes early
			return newFake(&journal{}, node.Service, node.ID), adm, nil
		}}
	return c.run(ctx), out.String(), errs.String(), cfg
}

func TestCommandRunsAndStops(t *testing.T) {
	t.Setenv("LIFECYCLE_TEST_NAME", "alice")
	code, _, stderr, cfg := invoke(t)
	if code != exitOK || cfg.Name != "alice" || cfg.Size != 7 || !strings.Contains(stderr, "msg=stopped") {
		t.Fatalf("%d %+v %s", code, cfg, stderr)
	}
}

func TestCommandHelpNamesEveryVariable(t *testing.T) {
	code, stdout, _, _ := invoke(t, "--help")
	for _, want := range []string{"LIFECYCLE_TEST_NAME", "somebody", "LIFECYCLE_TEST_SIZE", "7", "SWITCHYARD_ADMIN_TOKEN", "SWITCHYARD_LOG_LEVEL", "OTEL_"} {
		if code != exitOK || !strings.Contains(stdout, want) {
			t.Fatalf("%d, %q is missing in:\n%s", code, want, stdout)
		}
	}
}

func TestCommandRefusesBadConfiguration(t *testing.T) {
	for name, vars := range map[string][2]string{
		"not a number":     {"LIFECYCLE_TEST_SIZE", "big"},
		"refused by build": {"LIFECYCLE_TEST_SIZE", "-1"},
		"log format":       {"SWITCHYARD_LOG_FORMAT", "xml"},
		"log level":        {"SWITCHYARD_LOG_LEVEL", "loud"},
		"short token":      {"SWITCHYARD_ADMIN_TOKEN", "short"},
		"exporter":         {"OTEL_TRACES_EXPORTER", "carrier-pigeon"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(vars[0], vars[1])
			if code, _, stderr, _ := invoke(t); code != exitUsage || !strings.HasPrefix(stderr, "gateway: ") {
				t.Fatalf("%d %s", code, stderr)
			}
		})
	}
	if code, _, stderr, _ := invoke(t, "serve"); code != exitUsage || !strings.Contains(stderr, "serve") {
		t.Fatalf("unknown argument: %d %s", code, stderr)
	}
}

func TestNewNode(t *testing.T) {
	a, b := NewNode(Gateway, ""), NewNode(Gateway, "")
	if a.Validate() != nil || a.ID == b.ID || a.Boot == b.Boot {
		t.Fatalf("%+v %+v", a, b)
	}
	if NewNode(Gateway, "a b").Validate() == nil {
		t.Fatal("a node id with a space is valid")
	}
}
