package lab

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/switchyard-io/switchyard/shared/natstest"
)

// AllInOne is `switchyard up` as one process with an empty data folder.
type AllInOne struct {
	*Process
	Gateways []string // WebSocket URLs
	NATSURL  string
	Admin    string // URL
	Tickets  string // URL of ticketing
	DataDir  string
}

// StartAllInOne starts it and waits for its ready line.
func StartAllInOne(t testing.TB, env ...string) *AllInOne {
	t.Helper()
	ports := natstest.FreeAddrs(t, 6)
	a := &AllInOne{DataDir: t.TempDir()}
	base := []string{
		"SWITCHYARD_DATA_DIR=" + a.DataDir,
		"SWITCHYARD_NATS_LISTEN=" + ports[0],
		"SWITCHYARD_ADMIN_TOKEN=" + AdminToken,
		"TICKETING_LISTEN=" + ports[1],
		"GATEWAY_ADMIN_LISTEN=" + ports[2],
		"GATEWAY_LISTEN=" + neighbours(t),
		"GATEWAY_ID=aio",
	}
	a.Process = Start(t, "switchyard", append(base, env...), "up")
	line := a.WaitOutput("ready gateways=", startTimeout)
	for _, field := range strings.Fields(line) {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "gateways":
			for _, url := range strings.Split(value, ",") {
				if !strings.HasSuffix(url, "/v1/connect") {
					url += "/v1/connect"
				}
				a.Gateways = append(a.Gateways, url)
			}
		case "nats":
			a.NATSURL = value
		case "admin":
			a.Admin = value
		case "ticketing":
			a.Tickets = value
		}
	}
	if len(a.Gateways) < 2 || a.NATSURL == "" || a.Admin == "" || a.Tickets == "" {
		t.Fatalf("the ready line lacks an address: %q", line)
	}
	return a
}

// Post calls an operator's endpoint of the admin listener; it must answer with success.
func (a *AllInOne) Post(t testing.TB, path string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.Admin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+AdminToken)
	resp, err := httpClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // the status is all that counts
	if resp.StatusCode/100 != 2 {
		t.Fatalf("POST %s: %s", path, resp.Status)
	}
}

// neighbours returns an address whose next port is free too: the all-in-one process gives the
// second gateway the next port.
func neighbours(t testing.TB) string {
	t.Helper()
	addrs := natstest.FreeAddrs(t, 64)
	for i := range addrs[1:] {
		if port(t, addrs[i])+1 == port(t, addrs[i+1]) {
			return addrs[i]
		}
	}
	t.Fatal("no two free ports in a row")
	return ""
}

func port(t testing.TB, addr string) (n int) {
	t.Helper()
	if _, err := fmt.Sscanf(addr, "127.0.0.1:%d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}
