package keys

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/ticket"
)

// RefreshInterval is how often the stored ring is read again.
const RefreshInterval = 5 * time.Second

const (
	ringKey    = "ring"
	retryPause = 100 * time.Millisecond
	readLimit  = 2 * time.Second // one read of the ring
)

// Bucket describes the keys' bucket. Only ticketing may read it: it holds private keys.
func Bucket(replicas int) jetstream.KeyValueConfig {
	return jetstream.KeyValueConfig{
		Bucket:      subject.BucketKeys,
		Description: "ticket signing keys",
		History:     1,
		Storage:     jetstream.FileStorage,
		Replicas:    replicas,
	}
}

// held is a ring made ready for use.
type held struct {
	version uint64
	signer  *ticket.Signer
	set     *ticket.KeySet
	jwks    []byte
}

// Store follows the stored ring. It implements ticket.Keys.
type Store struct {
	kv               jetstream.KeyValue
	issuer, audience string
	log              *slog.Logger
	now              atomic.Pointer[held]
}

// New makes a Store with no keys yet: call Open.
func New(kv jetstream.KeyValue, issuer, audience string, log *slog.Logger) *Store {
	return &Store{kv: kv, issuer: issuer, audience: audience, log: log}
}

// Open reads the ring, or makes it where there is none. It retries until ctx ends.
func (s *Store) Open(ctx context.Context) error {
	fresh, err := NewRing(time.Now())
	if err != nil {
		return err
	}
	value, err := json.Marshal(fresh)
	if err != nil {
		return err
	}
	for {
		_, err = s.kv.Create(ctx, ringKey, value)
		if err == nil {
			s.log.InfoContext(ctx, "signing keys created", "kid", fresh.Current.ID)
		}
		// Created, there already, or uncertain: what is stored decides. A read may be behind the
		// write, so "not found" is tried again.
		if rerr := s.Refresh(ctx); rerr == nil {
			return nil
		} else if err = errors.Join(err, rerr); errors.Is(rerr, ErrRing) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("open signing keys: %w", errors.Join(ctx.Err(), err))
		case <-time.After(retryPause):
		}
	}
}

// Refresh reads the stored ring once and takes it if it is newer.
func (s *Store) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	e, err := s.kv.Get(ctx, ringKey)
	if err != nil {
		return err
	}
	r, err := parseRing(e.Value())
	if err != nil {
		return err
	}
	for {
		old := s.now.Load()
		if old != nil && old.version >= r.Version { // reads may be stale: never go back
			return nil
		}
		h, err := s.ready(r)
		if err != nil {
			return err
		}
		if s.now.CompareAndSwap(old, h) {
			return nil
		}
	}
}

func (s *Store) ready(r Ring) (*held, error) {
	signer, err := ticket.NewSigner(r.Current.ID, r.Current.private(), s.issuer, s.audience)
	if err != nil {
		return nil, err
	}
	set, err := r.Set()
	if err != nil {
		return nil, err
	}
	jwks, err := set.JWKS()
	return &held{version: r.Version, signer: signer, set: set, jwks: jwks}, err
}

// Run refreshes until ctx ends. A read that fails keeps the ring that is held.
func (s *Store) Run(ctx context.Context) {
	t := time.NewTicker(RefreshInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if err := s.Refresh(ctx); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "signing keys not refreshed", "error", err)
			}
		}
	}
}

// Signer signs with the current key; nil before Open.
func (s *Store) Signer() *ticket.Signer {
	if h := s.now.Load(); h != nil {
		return h.signer
	}
	return nil
}

// Key implements ticket.Keys.
func (s *Store) Key(kid string) (ed25519.PublicKey, bool) {
	if h := s.now.Load(); h != nil {
		return h.set.Key(kid)
	}
	return nil, false
}

// JWKS is the public key set; nil before Open. The caller must not change it.
func (s *Store) JWKS() []byte {
	if h := s.now.Load(); h != nil {
		return h.jwks
	}
	return nil
}
