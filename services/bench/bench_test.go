package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/natsconn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPayloadTellsWhenItWasDue(t *testing.T) {
	at := time.Now()
	for _, size := range []int{minPayload, 256, 4096} {
		p := payload(at, size)
		if !json.Valid(p) || len(p) < size || len(p) > size+32 {
			t.Errorf("payload of %d bytes: %d bytes, %s", size, len(p), p)
		}
		got, ok := due(p)
		if !ok || !got.Equal(time.Unix(0, at.UnixNano())) {
			t.Errorf("due %v %v, want %v", got, ok, at)
		}
	}
	if _, ok := due([]byte(`{"text":"not ours"}`)); ok {
		t.Error("a foreign payload was taken for ours")
	}
}

func TestPushBodies(t *testing.T) {
	var body struct {
		Route   int             `json:"route"`
		Users   []string        `json:"users"`
		Payload json.RawMessage `json:"payload"`
	}
	if err := json.Unmarshal(pushBody("users", nil, payload(time.Now(), 64)), &body); err != nil || body.Route != route {
		t.Errorf("%+v: %v", body, err)
	}
}

func TestLatencyIsClampedNotLost(t *testing.T) {
	r := newRecorder()
	r.record(0)
	r.record(time.Millisecond)
	r.record(2 * time.Hour)
	if l := summarize(r.take()); l.Count != 3 || l.Max < 59e6 {
		t.Errorf("%+v", l)
	}
	if l := summarize(r.take()); l.Count != 0 {
		t.Errorf("not started anew: %+v", l)
	}
}

func TestParallelCountsFailures(t *testing.T) {
	a := parallel(100, 7, func(i int) error {
		if i%10 == 0 {
			return errors.New("tenth")
		}
		return nil
	})
	if a.Done != 90 || a.Failed != 10 || a.Failures["tenth"] != 10 {
		t.Errorf("%+v", a)
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	rss, _, name, err := usage(os.Getpid())
	if err != nil || rss < 1<<20 || name == "" {
		t.Errorf("rss %d, name %q: %v", rss, name, err)
	}
	if _, _, _, err := usage(1 << 30); err == nil {
		t.Error("a process that does not exist has a usage")
	}
}

func TestWorkerRefusesRubbish(t *testing.T) {
	var out bytes.Buffer
	if err := Work(t.Context(), strings.NewReader("{\"op\":\"dance\"}\n"), &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "unknown command") {
		t.Errorf("answered %s", out.String())
	}
	if err := Work(t.Context(), strings.NewReader("rubbish\n"), &out); err == nil {
		t.Error("rubbish was accepted")
	}
}

func TestOptionsAreBounded(t *testing.T) {
	good := Options{Gateways: []string{"ws://x"}, Sessions: 1, Workers: 1, Concurrency: 1, InFlight: 1, Payload: 256, Batch: 1}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Options){
		"gateways": func(o *Options) { o.Gateways = nil },
		"sessions": func(o *Options) { o.Sessions = MaxSessions + 1 },
		"workers":  func(o *Options) { o.Workers = 0 },
		"rate":     func(o *Options) { o.Rate = -1 },
		"payload":  func(o *Options) { o.Payload = 1 },
		"batch":    func(o *Options) { o.Batch = api.MaxUsers + 1 },
		"duration": func(o *Options) { o.Duration = 2 * MaxDuration },
	} {
		o := good
		spoil(&o)
		if o.Validate() == nil {
			t.Errorf("%s: out of bounds, but accepted", name)
		}
	}
}

func TestNATSURL(t *testing.T) {
	t.Setenv("NATS_URL", "")
	if got := natsURL(""); got != natsconn.DefaultURL {
		t.Errorf("nothing is set: %s", got)
	}
	t.Setenv("NATS_URL", "nats://secret@nats.example:4222")
	if got := natsURL(""); got != "nats://secret@nats.example:4222" {
		t.Errorf("not the environment's: %s", got)
	}
	if got := natsURL("nats://flag"); got != "nats://flag" {
		t.Errorf("not the flag's: %s", got)
	}
	var help bytes.Buffer
	c := Command()
	c.SetOut(&help)
	c.SetArgs([]string{string(slices.Sorted(maps.Keys(Scenarios()))[0]), "--help"})
	if err := c.Execute(); err != nil || !strings.Contains(help.String(), "NATS_URL") || strings.Contains(help.String(), "secret") {
		t.Errorf("%v %s", err, &help)
	}
}
