package services

import (
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/switchyard-io/switchyard/gateway"
	"github.com/switchyard-io/switchyard/shared/api"
)

// TestLimitsAreDocumented: docs/LIMITS.md has the bounds that the code has.
func TestLimitsAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../docs/LIMITS.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(string(data), "\n")
	row := func(what string) string {
		for _, r := range rows {
			if strings.HasPrefix(r, "| ") && strings.Contains(r, what) {
				return strings.ReplaceAll(r, ",", "")
			}
		}
		t.Errorf("no row about %s", what)
		return ""
	}
	for what, n := range map[string]int{
		"body of a request":   api.MaxRequestBytes,
		"payload of a push":   api.MaxPayloadBytes,
		"`users`":             api.MaxUsers,
		"`sessions` of":       api.MaxSessions,
		"`groups` of a push":  api.MaxGroups,
		"`exclude_sessions`":  api.MaxExclude,
		"`reason`":            api.MaxReasonBytes,
		"`message_id`":        api.MaxMessageIDBytes,
		"`ack_timeout_ms`":    api.MaxAckTimeout,
		"left out or 0: 3000": api.DefaultAckTimeout,
		"`ttl_ms`":            api.MaxTTL,
		"of a ticket":         api.MaxTicketGroups,
	} {
		if r := row(what); !strings.Contains(r, strconv.Itoa(n)) {
			t.Errorf("%s is %d, and the row says %q", what, n, r)
		}
	}
	cfg := reflect.TypeFor[gateway.Config]()
	for _, name := range []string{"MaxMessageBytes", "MaxInFlight", "MaxViolations", "RequestRate", "RequestBurst", "MessageWindow", "MaxAcks", "MaxHeld", "MaxGroups"} {
		f, ok := cfg.FieldByName(name)
		if !ok {
			t.Fatalf("no setting %s", name)
		}
		if r := row(f.Tag.Get("envconfig")); !strings.Contains(r, f.Tag.Get("default")) {
			t.Errorf("%s is %s, and the row says %q", f.Tag.Get("envconfig"), f.Tag.Get("default"), r)
		}
	}
}
