package keyring

import (
	"context"
	"crypto/ed25519"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/ticket"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ticketing answers with the keys of the ids given.
type ticketing struct {
	t     *testing.T
	ids   atomic.Pointer[[]string] // nil: down
	calls atomic.Int64
}

func (k *ticketing) publish(ids ...string) { k.ids.Store(&ids) }

func (k *ticketing) answer() *nats.Msg {
	k.calls.Add(1)
	ids := k.ids.Load()
	if ids == nil {
		return nil
	}
	var keys []ticket.Key
	for _, id := range *ids {
		pub, _, err := ed25519.GenerateKey(nil)
		if err != nil {
			k.t.Error(err)
		}
		keys = append(keys, ticket.Key{ID: id, Public: pub})
	}
	set, err := ticket.NewKeySet(keys...)
	if err != nil {
		k.t.Error(err)
	}
	jwks, err := set.JWKS()
	if err != nil {
		k.t.Error(err)
	}
	data, err := (&wirepb.KeysReply{Jwks: jwks}).MarshalVT()
	if err != nil {
		k.t.Error(err)
	}
	return &nats.Msg{Data: data}
}

func (k *ticketing) request(context.Context, string, []byte) (*nats.Msg, error) {
	if m := k.answer(); m != nil {
		return m, nil
	}
	return nil, natsconn.ErrNoResponders
}

// inBubble runs a keyring and the test in one synctest bubble.
func inBubble(t *testing.T, test func(t *testing.T, k *Keyring, source *ticketing)) {
	synctest.Test(t, func(t *testing.T) {
		source := &ticketing{t: t}
		k, err := New(Config{}, source.request)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			k.Run(ctx)
		}()
		test(t, k, source)
		cancel()
		<-done
	})
}

// pass lets the bubble's time go by.
func pass(d time.Duration) { <-time.After(d) }

func has(k *Keyring, id string) bool {
	_, ok := k.keys.Load().Key(id)
	return ok
}

func TestRunFetchesAtOnceAndAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, k *Keyring, source *ticketing) {
		synctest.Wait()
		if k.Check() == nil {
			t.Fatal("ready without keys")
		}
		source.publish("one")
		pass(200 * time.Millisecond) // RetryInterval
		synctest.Wait()
		if err := k.Check(); err != nil || !has(k, "one") {
			t.Fatalf("no keys after a retry: %v", err)
		}
		source.publish("two", "one")
		pass(5 * time.Second)
		synctest.Wait()
		if !has(k, "two") {
			t.Fatal("no new keys after the interval")
		}
		source.publish("two")
		pass(5 * time.Second)
		synctest.Wait()
		if has(k, "one") {
			t.Fatal("a withdrawn key is still good")
		}
	})
}

func TestKnownKeysOutliveTicketing(t *testing.T) {
	inBubble(t, func(t *testing.T, k *Keyring, source *ticketing) {
		source.publish("one")
		pass(time.Second)
		source.ids.Store(nil)
		pass(time.Minute)
		synctest.Wait()
		if _, ok := k.Key("one"); !ok || k.Check() != nil {
			t.Fatal("a known key was lost")
		}
		if s := k.Stats(); s.Failed == 0 || s.Failed > 20 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestAMissFetchesButRarely(t *testing.T) {
	inBubble(t, func(t *testing.T, k *Keyring, source *ticketing) {
		source.publish("one")
		pass(time.Second)
		synctest.Wait()
		before := source.calls.Load()
		source.publish("two")
		if _, ok := k.Key("two"); ok {
			t.Fatal("found before a fetch")
		}
		synctest.Wait()
		if !has(k, "two") {
			t.Fatal("a miss did not fetch")
		}
		for range 3000 { // forged tickets for three seconds
			k.Key("forged")
			pass(time.Millisecond)
		}
		if n := source.calls.Load() - before; n > 5 {
			t.Fatalf("%d fetches in three seconds", n)
		}
	})
}

func TestRefreshWaitsForNewKeys(t *testing.T) {
	inBubble(t, func(t *testing.T, k *Keyring, source *ticketing) {
		source.publish("one")
		pass(time.Second)
		synctest.Wait()
		source.publish("two")
		if err := k.Refresh(t.Context()); err != nil || !has(k, "two") {
			t.Fatalf("refreshed: %v", err)
		}
		source.ids.Store(nil)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := k.Refresh(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
	})
}

func TestBadAnswersChangeNothing(t *testing.T) {
	answers := map[string]*nats.Msg{
		"no protobuf": {Data: []byte{0xff}},
		"no key set":  {Data: encode(t, []byte("{"))},
		"no keys":     {Data: encode(t, []byte(`{"keys":[]}`))},
		"other keys":  {Data: encode(t, []byte(`{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"one"}]}`))},
		"an error":    {Data: fault.ErrUnavailable.JSON(), Header: nats.Header{subject.HeaderErrorCode: {"UNAVAILABLE"}}},
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			source := &ticketing{t: t}
			source.publish("one")
			bad := false
			k, err := New(Config{}, func(ctx context.Context, s string, d []byte) (*nats.Msg, error) {
				if bad {
					return answer, nil
				}
				return source.request(ctx, s, d)
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := k.Fetch(t.Context()); err != nil {
				t.Fatal(err)
			}
			bad = true
			if err := k.Fetch(t.Context()); err == nil || !has(k, "one") {
				t.Fatalf("error %v, key kept: %v", err, has(k, "one"))
			}
		})
	}
}

func encode(t *testing.T, jwks []byte) []byte {
	data, err := (&wirepb.KeysReply{Jwks: jwks}).MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestFetchOverNATS(t *testing.T) {
	nc := natstest.Conn(t, natstest.Server(t).URL())
	k, err := New(Config{Timeout: 10 * time.Second}, func(ctx context.Context, s string, d []byte) (*nats.Msg, error) {
		return natsconn.Request(ctx, nc, s, d)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Fetch(t.Context()); !errors.Is(err, fault.ErrUnavailable) {
		t.Fatalf("with nobody there: %v", err)
	}
	source := &ticketing{t: t}
	source.publish("one")
	if _, err := nc.QueueSubscribe(subject.TicketKeys, subject.QueueTicketing, func(m *nats.Msg) {
		_ = m.Respond(source.answer().Data)
	}); err != nil {
		t.Fatal(err)
	}
	if err := k.Fetch(t.Context()); err != nil || !has(k, "one") {
		t.Fatalf("got %v", err)
	}
}

func TestConfig(t *testing.T) {
	if _, err := New(Config{Interval: -1}, nil); err == nil {
		t.Fatal("a negative interval is accepted")
	}
}
