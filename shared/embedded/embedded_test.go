package embedded_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/shared/embedded"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const anyPort = "127.0.0.1:0"

func TestRefusals(t *testing.T) {
	for name, c := range map[string]embedded.Config{
		"open to the world":       {Listen: "0.0.0.0:0", DataDir: t.TempDir()},
		"open by default":         {Listen: ":0", DataDir: t.TempDir()},
		"a host name":             {Listen: "nats.example.com:4222", DataDir: t.TempDir()},
		"no port":                 {Listen: "127.0.0.1", DataDir: t.TempDir()},
		"a bad port":              {Listen: "127.0.0.1:99999", DataDir: t.TempDir()},
		"no data directory":       {Listen: anyPort},
		"a nameless cluster":      {Listen: anyPort, DataDir: t.TempDir(), Cluster: &embedded.Cluster{Listen: anyPort}},
		"routes off loopback":     {Listen: anyPort, DataDir: t.TempDir(), Name: "a", Cluster: &embedded.Cluster{Name: "c", Listen: "0.0.0.0:0"}},
		"a bad address of routes": {Listen: anyPort, DataDir: t.TempDir(), Name: "a", Cluster: &embedded.Cluster{Name: "c", Listen: "x"}},
	} {
		if s, err := embedded.Start(c); !errors.Is(err, embedded.ErrConfig) {
			t.Errorf("%s: %v", name, err)
			if s != nil {
				s.Shutdown()
			}
		}
	}
}

func TestPortInUse(t *testing.T) {
	s := natstest.Server(t)
	_, err := embedded.Start(embedded.Config{Listen: strings.TrimPrefix(s.URL(), "nats://"), DataDir: t.TempDir()})
	if !errors.Is(err, embedded.ErrNotStarted) || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("got %v", err)
	}
}

func TestToken(t *testing.T) {
	s, err := embedded.Start(embedded.Config{Listen: "0.0.0.0:0", DataDir: t.TempDir(), Token: "let-me-in"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	if nc, err := nats.Connect(s.URL()); !errors.Is(err, nats.ErrAuthorization) {
		t.Fatalf("without the token: %v, %v", nc, err)
	}
	nc, err := nats.Connect(strings.Replace(s.URL(), "nats://", "nats://let-me-in@", 1))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

// The server's partition function and slot.Of agree, for every slot: a plain publish on a
// per-user subject reaches the leader's subscription.
func TestUserSubjectsAreMappedToSlots(t *testing.T) {
	server := natstest.Server(t)
	nc := natstest.Conn(t, server.URL())
	got := make(chan string, 1)
	for h := range slot.Count {
		for _, op := range []subject.UserOp{subject.UserPush, subject.UserPresence} {
			if _, err := nc.Subscribe(subject.SlotUserAll(slot.Hash(h), op), func(m *nats.Msg) { got <- m.Subject }); err != nil {
				t.Fatal(err)
			}
		}
	}
	seen := make(map[slot.Hash]bool)
	users := []identity.UID{"eu/main/alice"}
	for i := 0; len(seen) < slot.Count; i++ {
		if i == len(users) {
			users = append(users, identity.UID(fmt.Sprintf("r%d/m_%d/user-%d=", i%3, i%7, i)))
		}
		uid := users[i]
		h := slot.OfUID(uid)
		if seen[h] {
			continue
		}
		seen[h] = true
		op := subject.UserPush
		if i%2 == 1 {
			op = subject.UserPresence
		}
		plain, _ := subject.User(uid, op)
		want, _ := subject.SlotUser(uid, op)
		if err := nc.Publish(plain, nil); err != nil {
			t.Fatal(err)
		}
		select {
		case s := <-got:
			if s != want {
				t.Fatalf("%s went to %s, want %s", plain, s, want)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("%s reached nobody", plain)
		}
	}
}

func TestDataSurvivesARestart(t *testing.T) {
	cluster := natstest.Cluster(t, 1)
	js, err := jetstream.New(natstest.Conn(t, cluster.URL()))
	if err != nil {
		t.Fatal(err)
	}
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "B"})
	if err != nil {
		t.Fatal(err)
	}
	rev, err := kv.Put(t.Context(), "k", []byte("v"))
	if err != nil {
		t.Fatal(err)
	}
	cluster.Stop(0)
	cluster.Restart(0)
	natstest.Eventually(t, 10*time.Second, "the value is there again", func() bool {
		e, err := kv.Get(t.Context(), "k")
		return err == nil && string(e.Value()) == "v" && e.Revision() == rev
	})
}

// A client that does not answer pings (a stopped process) is cut, so that it stops swallowing requests.
func TestHungClientsAreCut(t *testing.T) {
	t.Parallel()
	server := natstest.Server(t)
	c, err := net.Dial("tcp", strings.TrimPrefix(server.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte("CONNECT {\"verbose\":false}\r\nSUB x 1\r\n")); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := c.SetReadDeadline(start.Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(c)
	for lines.Scan() { // INFO, PINGs, then -ERR 'Stale Connection' and the end
	}
	if d := time.Since(start); lines.Err() != nil || d > (embedded.MaxPingsOut+2)*embedded.PingInterval {
		t.Fatalf("cut after %v: %v", d, lines.Err())
	}
}
