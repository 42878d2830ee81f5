package presence

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
)

func TestConfig(t *testing.T) {
	for name, c := range map[string]Config{
		"no gateway":      {Boot: "b"},
		"no boot":         {Gateway: "g"},
		"negative time":   {Gateway: "g", Boot: "b", TouchInterval: -1},
		"negative bound":  {Gateway: "g", Boot: "b", MaxInFlight: -1},
		"back-off bounds": {Gateway: "g", Boot: "b", BackoffMin: time.Second, BackoffMax: time.Millisecond},
	} {
		if _, err := New(c, nil, nil, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestBackoffIsBounded(t *testing.T) {
	r := newRig(t)
	for attempt := range 100 {
		if d := r.backoff(attempt + 1); d <= 0 || d > 10*time.Millisecond {
			t.Fatalf("attempt %d waits %v", attempt, d)
		}
	}
}

func TestObserve(t *testing.T) {
	r := newRig(t)
	reg, err := r.Observe(noop.NewMeterProvider().Meter("test"))
	if err != nil {
		t.Fatal(err)
	}
	if err := reg.Unregister(); err != nil {
		t.Fatal(err)
	}
}
