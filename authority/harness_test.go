package authority_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/kelseyhightower/envconfig"
	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/authority"
	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/telemetry"
	"github.com/switchyard-io/switchyard/shared/wire"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// site is a NATS server with authorities.
type site struct {
	t   *testing.T
	url string
	nc  *nats.Conn // a backend's
}

func newSite(t *testing.T) *site {
	t.Helper()
	url := natstest.Server(t).URL()
	return &site{t: t, url: url, nc: natstest.Conn(t, url)}
}

// config is the default configuration, changed by edit.
func config(t *testing.T, edit func(*authority.Config)) authority.Config {
	t.Helper()
	var cfg authority.Config
	if err := envconfig.Process("", &cfg); err != nil {
		t.Fatal(err)
	}
	cfg.LogicalSlots = 8
	if edit != nil {
		edit(&cfg)
	}
	return cfg
}

// start runs an authority until the test ends or stop is called.
func (s *site) start(id string, edit func(*authority.Config)) (a *authority.Authority, stop func()) {
	s.t.Helper()
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() && os.Getenv("AUTHORITY_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	a, err := authority.New(config(s.t, edit), lifecycle.NewNode(lifecycle.Authority, id), natsconn.Config{URL: s.url}, telemetry.Noop(), log)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := a.Start(ctx); err != nil {
		s.t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := a.Stop(ctx); err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(stop)
	return a, stop
}

// ready starts one authority and waits until it leads everything.
func ready(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	a, _ := s.start("a1", nil)
	s.await(a)
	return s
}

func (s *site) await(a *authority.Authority) {
	s.t.Helper()
	natstest.Eventually(s.t, patience, "the authority is ready", func() bool { return a.Check() == nil })
}

// ask makes a request of a backend. A reply that is an error ends the test.
func ask[Reply any](s *site, subj string, body any) Reply {
	s.t.Helper()
	r, err := try[Reply](s, subj, body)
	if err != nil {
		s.t.Fatalf("%s: %v", subj, err)
	}
	return r
}

func try[Reply any](s *site, subj string, body any) (r Reply, err error) {
	s.t.Helper()
	data, ok := body.(string)
	if !ok {
		b, err := json.Marshal(body)
		if err != nil {
			s.t.Fatal(err)
		}
		data = string(b)
	}
	m, err := s.nc.Request(subj, []byte(data), patience)
	if err != nil {
		return r, err
	}
	if f := fault.FromMsg(m); f != nil {
		return r, f
	}
	if err := json.Unmarshal(m.Data, &r); err != nil {
		s.t.Fatalf("%s answers %s: %v", subj, m.Data, err)
	}
	return r, nil
}

// target is the leadership of a hash slot as sy.v1.slots tells it.
func (s *site) target(h slot.Hash) slot.Target {
	for _, e := range ask[api.SlotsReply](s, subject.Slots, "").Slots {
		for _, n := range e.HashSlots {
			if n == int(h) {
				return slot.Target{Hash: h, ID: e.SlotID, LeaderNode: e.LeaderNode, LeaderBoot: e.LeaderBoot, Term: e.Term, ConfigEpoch: e.ConfigEpoch}
			}
		}
	}
	s.t.Fatalf("no slot holds %d", h)
	return slot.Target{}
}

type message interface {
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
}

// call makes a call between services; false when nobody answered.
func (s *site) call(subj string, req, reply message, wait time.Duration) bool {
	s.t.Helper()
	data, err := req.MarshalVT()
	if err != nil {
		s.t.Fatal(err)
	}
	m, err := s.nc.Request(subj, data, wait)
	if err != nil {
		return false
	}
	if err := reply.UnmarshalVT(m.Data); err != nil {
		s.t.Fatal(err)
	}
	return true
}

func soon() int64 { return time.Now().Add(patience).UnixMilli() }

// push makes a push request for users.
func push(users ...identity.UID) map[string]any {
	return map[string]any{"users": users, "route": 100, "payload": map[string]any{"n": 1}}
}

// userSubject is the per-user subject.
func (s *site) userSubject(u identity.UID, op subject.UserOp) string {
	subj, ok := subject.User(u, op)
	if !ok {
		s.t.Fatalf("%s has no subject", u)
	}
	return subj
}

// registered registers and commits a session at the leader of its slot, taking conflicts as
// confirmed.
func (s *site) registered(r *wirepb.Route) {
	s.t.Helper()
	h := slot.OfUID(identity.UID(r.Uid))
	t := s.target(h)
	var reg wirepb.RegisterReply
	if !s.call(subject.Slot(h, subject.SlotRegister), &wirepb.RegisterRequest{Target: wire.Target(t), Route: r, DeadlineMs: soon()}, &reg, patience) ||
		reg.Status != wirepb.Status_STATUS_OK {
		s.t.Fatalf("register: %v", &reg)
	}
	c := wirepb.CommitRequest{Target: wire.Target(t), Candidate: reg.Candidate, SessionId: r.SessionId, DeadlineMs: soon()}
	for _, old := range reg.Conflicts {
		c.Confirmed = append(c.Confirmed, old.SessionId)
	}
	var com wirepb.CommitReply
	if !s.call(subject.Slot(h, subject.SlotCommit), &c, &com, patience) || com.Status != wirepb.Status_STATUS_OK {
		s.t.Fatalf("commit: %v", &com)
	}
}
