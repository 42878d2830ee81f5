//go:build browser

package browser

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/services/e2e/lab"
)

func TestMain(m *testing.M) {
	code := m.Run()
	lab.RemoveBinaries()
	if err := goleak.Find(); code == 0 && err != nil {
		println(err.Error())
		code = 1
	}
	os.Exit(code)
}

const (
	pageLimit = 60 * time.Second // for everything that one tab does
	loggedIn  = chromedp.CSS(`#state[data-state="in"]`)
	loggedOut = chromedp.CSS(`#state[data-state="out"]`)
	waiting   = chromedp.CSS(`#state[data-state="wait"]`)
)

// chromium starts a browser that ends with the test.
func chromium(t *testing.T) context.Context {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()))
	alloc, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(cancel)
	browser, stop := chromedp.NewContext(alloc)
	t.Cleanup(stop)
	if err := chromedp.Do(browser); err != nil {
		t.Fatalf("start Chromium (Debian: apt-get install chromium): %v", err)
	}
	return browser
}

// open returns a tab on the page of the first gateway.
func open(t *testing.T, browser context.Context, suite *lab.AllInOne) context.Context {
	t.Helper()
	url := strings.TrimSuffix(strings.Replace(suite.Gateways[0], "ws:", "http:", 1), "/v1/connect") + "/"
	tab, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	tab, stop := context.WithTimeout(tab, pageLimit)
	t.Cleanup(stop)
	run(t, tab, chromedp.Navigate(url), chromedp.WaitReady(chromedp.CSS(`select option`)))
	return tab
}

func run(t *testing.T, tab context.Context, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(tab, steps...); err != nil {
		t.Fatal(err)
	}
}

func text(t *testing.T, tab context.Context, selector chromedp.CSS) string {
	t.Helper()
	out, err := chromedp.Run(tab, chromedp.Text(selector))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func fill(selector chromedp.CSS, value string) chromedp.Action[chromedp.Void] {
	return chromedp.SetValue(selector, value)
}

func click(selector chromedp.CSS) chromedp.Action[chromedp.Void] { return chromedp.Click(selector) }

// waitText waits until an element's text holds want.
func waitText(t *testing.T, tab context.Context, selector, want string) {
	t.Helper()
	if _, err := chromedp.Run(tab, chromedp.Poll[bool](fmt.Sprintf(`document.querySelector(%q).textContent.includes(%q)`, selector, want))); err != nil {
		t.Fatalf("%s never says %q: %v", selector, want, err)
	}
}

func TestTwoTabsOnTwoGateways(t *testing.T) {
	suite := lab.StartAllInOne(t)
	browser := chromium(t)
	alice, bob := open(t, browser, suite), open(t, browser, suite)
	for i, tab := range []context.Context{alice, bob} {
		run(t, tab,
			fill(`[name=user]`, []string{"alice", "bob"}[i]),
			fill(`[name=gateway]`, suite.Gateways[i]),
			click(`#login button`), chromedp.WaitVisible(loggedIn))
	}

	run(t, alice, fill(`[name=to]`, "bob"), fill(`[name=text]`, "hello bob"), click(`[name=ack]`), click(`#push button`))
	waitText(t, bob, "#log", `{"text":"hello bob"}`)
	waitText(t, alice, "#reply", `"acked": 1`)
	waitText(t, alice, "#presence", "bob")
	waitText(t, alice, "#presence", "online")

	// The same user and device again, in the other tab and on the other gateway: the first is replaced.
	device, err := chromedp.Run(alice, chromedp.Value(chromedp.CSS(`[name=device]`)))
	if err != nil {
		t.Fatal(err)
	}
	run(t, bob, fill(`[name=user]`, "alice"), fill(`[name=device]`, device), click(`#login button`), chromedp.WaitVisible(loggedIn))
	run(t, alice, chromedp.WaitVisible(loggedOut))
	if s := text(t, alice, "#state"); !strings.Contains(s, "4502") {
		t.Errorf("the replaced tab says %q", s)
	}

	run(t, bob, fill(`[name=to]`, "alice"))
	waitText(t, bob, "#presence", device)
	run(t, bob, click(`#presence button`), chromedp.WaitVisible(loggedOut))
	if s := text(t, bob, "#state"); !strings.Contains(s, "4505") {
		t.Errorf("the kicked tab says %q", s)
	}
}

// TestClientComesBack drains the gateway under a client: it is told, and comes back by itself.
func TestClientComesBack(t *testing.T) {
	suite := lab.StartAllInOne(t)
	browser := chromium(t)
	tab := open(t, browser, suite)
	run(t, tab, fill(`[name=user]`, "carol"), click(`#login button`), chromedp.WaitVisible(loggedIn))
	suite.Post(t, "/drain")
	waitText(t, tab, "#log", "server_draining")
	waitText(t, tab, "#log", "closed 4000")
	suite.Post(t, "/undrain")
	run(t, tab, chromedp.WaitVisible(loggedIn))
}

// TestClientRenewsItsReconnectTicket: a client comes back after more than the life of the ticket
// that it logged in with, and says so when it stayed away longer than that of its newest.
func TestClientRenewsItsReconnectTicket(t *testing.T) {
	const ttl = 6 * time.Second
	suite := lab.StartAllInOne(t, "TICKETING_RECONNECT_TTL="+ttl.String())
	browser := chromium(t)
	tab := open(t, browser, suite)
	run(t, tab, fill(`[name=user]`, "dora"), click(`#login button`), chromedp.WaitVisible(loggedIn))
	waitPast(t, tab, ttl+2*time.Second)
	suite.Post(t, "/drain")
	waitText(t, tab, "#log", "closed 4000")
	suite.Post(t, "/undrain")
	run(t, tab, chromedp.WaitVisible(loggedIn))

	suite.Post(t, "/drain")
	run(t, tab, chromedp.WaitVisible(waiting))
	waitPast(t, tab, ttl+time.Second)
	suite.Post(t, "/undrain")
	waitText(t, tab, "#log", "cannot come back: UNAUTHENTICATED")
	run(t, tab, chromedp.WaitVisible(loggedOut))
}

// waitPast waits until the tab's clock says that d has passed.
func waitPast(t *testing.T, tab context.Context, d time.Duration) {
	t.Helper()
	since := time.Now().Add(d).UnixMilli()
	if _, err := chromedp.Run(tab, chromedp.Poll[bool](fmt.Sprintf("Date.now() > %d", since))); err != nil {
		t.Fatal(err)
	}
}
