package leadership

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/membership"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/slot"
)

// childEnv has the URL of the server when this binary runs as a node of its own.
const (
	childEnv   = "LEADERSHIP_TEST_NODE"
	askSubject = "test.ask" // answered with how many slots the child serves
	// auditSubject is answered with how many asks the child handled in the first second after it
	// woke from a pause, and the most slots that it served in one of them: the answers themselves
	// may be lost with the connection.
	auditSubject = "test.audit"
)

type quiet struct{}

func (quiet) Acquired(slot.ID, Entry, bool) {}
func (quiet) Lost(slot.ID, Loss)            {}

// runChild is a node in a process of its own, until its standard input ends.
func runChild(url string) error {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond),
		nats.ReconnectBufSize(-1), nats.PingInterval(time.Second))
	if err != nil {
		return err
	}
	defer nc.Close()
	data, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return err
	}
	defer data.Close()
	tracker := membership.NewTracker(nc, membership.Config{})
	table, err := NewTable(TableConfig{}, slot.Layout{Logical: logical, ConfigEpoch: 1}, nc, tracker)
	if err != nil {
		return err
	}
	node := lifecycle.NewNode("authority", "child")
	e, err := NewEngine(EngineConfig{}, node, nc, table, quiet{})
	if err != nil {
		return err
	}
	if err := e.answer(data); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{
		tracker.Run, table.Run, e.Run, membership.NewAnnouncer(nc, node, e.Claims).Run,
	} {
		wg.Go(func() { _ = run(ctx) })
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	wg.Wait()
	return nil
}

// answer serves the two test subjects; both run on goroutines of the connection.
func (e *Engine) answer(nc *nats.Conn) error {
	var mu sync.Mutex
	var last, woke time.Time
	var asks, most int
	_, err := nc.Subscribe(askSubject, func(m *nats.Msg) {
		n, now := e.servingCount(), time.Now()
		mu.Lock()
		if !last.IsZero() && now.Sub(last) > 5*time.Second {
			woke = now
		}
		last = now
		if now.Sub(woke) < time.Second {
			asks, most = asks+1, max(most, n)
		}
		mu.Unlock()
		_ = m.Respond([]byte(strconv.Itoa(n)))
	})
	if err != nil {
		return err
	}
	_, err = nc.Subscribe(auditSubject, func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		_ = m.Respond(fmt.Appendf(nil, "%d %d", asks, most))
	})
	return err
}

func maybeChild() {
	url := os.Getenv(childEnv)
	if url == "" {
		return
	}
	if err := runChild(url); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A real process is stopped (SIGSTOP), replaced, and wakes up with requests in its sockets' buffers,
// on connections that it does not yet know to be cut: it must not act as leader on a single one.
func TestStoppedProcessServesNothingWhenItWakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, natstest.Server(t).URL(), logical)
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), childEnv+"="+w.url)
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Signal(syscall.SIGCONT)
		_ = stdin.Close()
		_ = child.Wait()
	})
	nc := natstest.Conn(t, w.url)
	ask := func() int {
		m, err := nc.Request(askSubject, nil, time.Second)
		if err != nil {
			return -1
		}
		n, _ := strconv.Atoi(string(m.Data))
		return n
	}
	natstest.Eventually(t, 20*time.Second, "the child serves all", func() bool { return ask() == logical })
	b := w.start("b", defaultView)
	natstest.Eventually(t, 20*time.Second, "both have their share", func() bool { return ask() == logical/2 && b.serving() == logical/2 })

	answers, err := nc.SubscribeSync(nats.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	natstest.Eventually(t, 25*time.Second, "the other node serves all", func() bool {
		if err := nc.PublishRequest(askSubject, answers.Subject, nil); err != nil {
			t.Fatal(err)
		}
		return b.serving() == logical
	})
	took := time.Since(begin)
	t.Logf("taken over after %s", took)
	if took > 17*time.Second {
		t.Errorf("takeover of a hung node took %s", took)
	}
	held := b.table.Snapshot()
	for err == nil { // answers from before the signal took effect
		_, err = answers.NextMsg(10 * time.Millisecond)
	}
	if err := child.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// Until slots move back for balance (2 s at least), every answer must be "none".
	n := 0
	for until := time.Now().Add(1500 * time.Millisecond); time.Now().Before(until); {
		m, err := answers.NextMsg(100 * time.Millisecond)
		if err != nil {
			continue
		}
		n++
		if string(m.Data) != "0" && len(m.Data) > 0 {
			t.Fatalf("answer %d after it woke: %s slots served", n, m.Data)
		}
	}
	var asks, most int
	natstest.Eventually(t, 10*time.Second, "the child answers", func() bool {
		m, err := nc.Request(auditSubject, nil, time.Second)
		if err != nil {
			return false
		}
		_, err = fmt.Sscan(string(m.Data), &asks, &most)
		return err == nil
	})
	t.Logf("%d answers came late; %d requests were handled on waking", n, asks)
	if asks == 0 || most != 0 {
		t.Errorf("of %d requests handled on waking, one was served with %d slots", asks, most)
	}
	for id := range slot.ID(logical) {
		if now := b.table.Snapshot().Entry(id); now.Leader != b.owner() || now.Term != held.Entry(id).Term {
			t.Errorf("slot %d: %+v", id, now)
		}
	}
	natstest.Eventually(t, 20*time.Second, "both have their share again", func() bool { return ask() == logical/2 && b.serving() == logical/2 })
}
