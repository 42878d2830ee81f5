package dispatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/authority/internal/dispatch"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// TestEndOfContextEndsTheWait: whatever time a push has for its acknowledgements.
func TestEndOfContextEndsTheWait(t *testing.T) {
	scene(t, func(t *testing.T, w *world, d *dispatch.Dispatcher) {
		w.hung["b"] = true
		us := users(50)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		out := d.Push(ctx, us, nil, &wirepb.Push{Ack: true, AckDeadlineMs: began.Add(time.Hour).UnixMilli()}, nil)
		if took := time.Since(began); took != time.Second {
			t.Fatalf("took %v", took)
		}
		if len(out.Sessions) != len(in(us, "a")) || len(out.Failures) != len(in(us, "b")) || out.Failures[0].Code != fault.Timeout {
			t.Fatalf("%d sessions, %v", len(out.Sessions), out.Failures)
		}
		<-time.After(2 * time.Hour) // the call ends too
	})
}
