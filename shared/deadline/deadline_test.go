package deadline_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/shared/deadline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLateAllowsForSkew(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	for ago, want := range map[time.Duration]bool{
		-time.Hour: false, 0: false, time.Second: false, deadline.Skew: false, deadline.Skew + time.Millisecond: true, time.Hour: true,
	} {
		if got := deadline.Late(now.Add(-ago).UnixMilli(), now); got != want {
			t.Errorf("%s after the deadline: late is %v", ago, got)
		}
	}
	if deadline.Late(0, now) {
		t.Error("no deadline is late")
	}
}

func TestEnd(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	for _, c := range []struct{ left, want time.Duration }{
		{time.Minute, 2 * time.Second},                   // the bound
		{0, 2 * time.Second},                             // over by this clock, perhaps not by the other
		{-4 * time.Second, time.Second},                  // what the allowance leaves
		{-deadline.Skew - time.Second, -1 * time.Second}, // late
	} {
		if got := deadline.End(now.Add(c.left).UnixMilli(), now, 2*time.Second).Sub(now); got != c.want {
			t.Errorf("%s before the deadline: %s left, want %s", c.left, got, c.want)
		}
	}
	if got := deadline.End(0, now, time.Second).Sub(now); got != time.Second {
		t.Errorf("no deadline: %s left", got)
	}
}

func TestGuardCountsAllAndLogsSome(t *testing.T) {
	var out bytes.Buffer
	g := deadline.NewGuard(slog.New(slog.NewTextHandler(&out, nil)))
	now := time.UnixMilli(1_700_000_000_000)
	late := now.Add(-time.Minute).UnixMilli()
	for i := range 21 { // 20 s
		if !g.Late(t.Context(), "a.subject", late, now.Add(time.Duration(i)*time.Second)) {
			t.Fatal("not late")
		}
	}
	if g.Late(t.Context(), "a.subject", now.UnixMilli(), now) {
		t.Fatal("in time, and late")
	}
	if n := strings.Count(out.String(), "\n"); g.Count() != 21 || n != 3 {
		t.Errorf("%d counted, %d logged", g.Count(), n)
	}
	if g := deadline.NewGuard(nil); !g.Late(t.Context(), "", late, now) || g.Count() != 1 {
		t.Error("without a log")
	}
}
