package memory

import (
	"context"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDue(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		name        string
		before, now usage
		want        bool
	}{
		{"after a storm", usage{allocated: 900 * mb}, usage{allocated: 901 * mb, live: 20 * mb, objects: 40 * mb}, true},
		{"free pages kept", usage{}, usage{live: 20 * mb, objects: 20 * mb, free: 30 * mb}, true},
		{"busy", usage{}, usage{allocated: 40 * mb, live: 20 * mb, objects: 40 * mb}, false},
		{"nothing to gain", usage{}, usage{allocated: mb, live: 20 * mb, objects: 21 * mb, free: mb}, false},
		{"little, of much", usage{}, usage{allocated: mb, live: 800 * mb, objects: 860 * mb, free: 10 * mb}, false},
		{"live is of a later moment than objects", usage{}, usage{live: 30 * mb, objects: 29 * mb}, false},
	} {
		if got := due(c.before, c.now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestLookReadsEveryMetric(t *testing.T) {
	u := look() // an unknown name would panic
	if u.allocated == 0 || u.objects == 0 {
		t.Errorf("%+v", u)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	Trim(ctx)
}
