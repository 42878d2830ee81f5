package keys

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard-io/switchyard/shared/ticket"
)

// ErrRing is wrapped when a stored ring cannot be used.
var ErrRing = errors.New("invalid key ring")

// Key is one signing key as it is stored.
type Key struct {
	ID        string    `json:"kid"`
	Seed      []byte    `json:"seed"` // 32 bytes, RFC 8032
	CreatedAt time.Time `json:"created_at"`
}

// NewKey makes a random key. Its id is derived from the public key: two keys never share one.
func NewKey(now time.Time) (Key, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := rand.Read(seed); err != nil {
		return Key{}, err
	}
	k := Key{Seed: seed, CreatedAt: now.UTC()}
	sum := sha256.Sum256(k.public())
	k.ID = base64.RawURLEncoding.EncodeToString(sum[:12])
	return k, nil
}

func (k Key) private() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(k.Seed) }

func (k Key) public() ed25519.PublicKey { return k.private().Public().(ed25519.PublicKey) }

// Ring is the set of signing keys of a moment.
type Ring struct {
	Version  uint64 `json:"version"` // grows by one with each change
	Next     *Key   `json:"next,omitempty"`
	Current  Key    `json:"current"`
	Previous *Key   `json:"previous,omitempty"`
}

// NewRing makes the first ring: a current and a next key.
func NewRing(now time.Time) (Ring, error) {
	current, err := NewKey(now)
	if err != nil {
		return Ring{}, err
	}
	next, err := NewKey(now)
	return Ring{Version: 1, Current: current, Next: &next}, err
}

// parseRing reads a stored ring and checks its keys.
func parseRing(b []byte) (Ring, error) {
	var r Ring
	if err := json.Unmarshal(b, &r); err != nil {
		return Ring{}, fmt.Errorf("%w: %w", ErrRing, err)
	}
	if r.Version == 0 {
		return Ring{}, fmt.Errorf("%w: no version", ErrRing)
	}
	for _, k := range r.all() {
		if k.ID == "" || len(k.Seed) != ed25519.SeedSize {
			return Ring{}, fmt.Errorf("%w: key", ErrRing)
		}
	}
	return r, nil
}

func (r Ring) all() []Key {
	var out []Key
	if r.Next != nil {
		out = append(out, *r.Next)
	}
	out = append(out, r.Current)
	if r.Previous != nil {
		out = append(out, *r.Previous)
	}
	return out
}

// Set is the public half: next, current, previous.
func (r Ring) Set() (*ticket.KeySet, error) {
	var pub []ticket.Key
	for _, k := range r.all() {
		pub = append(pub, ticket.Key{ID: k.ID, Public: k.public()})
	}
	return ticket.NewKeySet(pub...)
}
