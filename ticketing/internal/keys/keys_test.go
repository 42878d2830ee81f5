package keys

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/ticket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func bucket(t *testing.T) jetstream.KeyValue {
	t.Helper()
	js, err := natsconn.JetStream(natstest.Conn(t, natstest.Server(t).URL()))
	if err != nil {
		t.Fatal(err)
	}
	kv, err := natsconn.EnsureKV(t.Context(), js, Bucket(1))
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

func newStore(kv jetstream.KeyValue) *Store {
	return New(kv, "", "", slog.New(slog.DiscardHandler))
}

func claims() ticket.Claims {
	now := time.Now()
	return ticket.Claims{
		ID: ticket.NewID(), Purpose: ticket.Login, IssuedAt: now, ExpiresAt: now.Add(time.Minute),
		Identity: identity.Identity{AccountID: "a", UserID: "u", RegionID: "eu", RealmID: "main", Generation: 1},
	}
}

// TestManyOpenOneRing: whoever is first makes the ring, all sign with it.
func TestManyOpenOneRing(t *testing.T) {
	kv := bucket(t)
	stores := make([]*Store, 8)
	var wg sync.WaitGroup
	for i := range stores {
		stores[i] = newStore(kv)
		wg.Go(func() {
			if err := stores[i].Open(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, s := range stores {
		if !bytes.Equal(s.JWKS(), stores[0].JWKS()) || len(s.JWKS()) == 0 {
			t.Fatalf("rings differ: %s, %s", s.JWKS(), stores[0].JWKS())
		}
	}
	token, err := stores[1].Signer().Sign(claims())
	if err != nil {
		t.Fatal(err)
	}
	v, err := ticket.NewVerifier(ticket.VerifierConfig{}, stores[2])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(token, time.Now()); err != nil {
		t.Fatal(err)
	}
}

// TestRefreshTakesOnlyNewerRings: a stale read never brings an old ring back.
func TestRefreshTakesOnlyNewerRings(t *testing.T) {
	kv := bucket(t)
	s := newStore(kv)
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := s.JWKS()
	put := func(version uint64) {
		t.Helper()
		r, err := NewRing(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		r.Version = version
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kv.Put(t.Context(), ringKey, b); err != nil {
			t.Fatal(err)
		}
		if err := s.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	put(1)
	if !bytes.Equal(s.JWKS(), old) {
		t.Fatal("took another ring of the same version")
	}
	put(2)
	if bytes.Equal(s.JWKS(), old) {
		t.Fatal("did not take the newer ring")
	}
}

func TestBrokenRingIsRefused(t *testing.T) {
	for name, value := range map[string]string{
		"no JSON":    `x`,
		"no version": `{"current":{"kid":"a","seed":"AAAA"}}`,
		"short seed": `{"version":1,"current":{"kid":"a","seed":"AAAA"}}`,
	} {
		kv := bucket(t)
		if _, err := kv.PutString(t.Context(), ringKey, value); err != nil {
			t.Fatal(err)
		}
		s := newStore(kv)
		if err := s.Open(t.Context()); !errors.Is(err, ErrRing) || s.Signer() != nil || s.JWKS() != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSetHoldsNoPrivatePart(t *testing.T) {
	now := time.Now()
	r, err := NewRing(now)
	if err != nil {
		t.Fatal(err)
	}
	prev, err := NewKey(now)
	if err != nil {
		t.Fatal(err)
	}
	r.Previous = &prev
	set, err := r.Set()
	if err != nil {
		t.Fatal(err)
	}
	jwks, err := set.JWKS()
	if err != nil || set.Len() != 3 || bytes.Contains(jwks, []byte(`"d"`)) {
		t.Fatalf("%d keys: %s, %v", set.Len(), jwks, err)
	}
}
