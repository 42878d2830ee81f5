package ticket

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// MaxKeys bounds a key set. Ticketing publishes three: next, current and previous.
const MaxKeys = 16

// ErrKeySet is wrapped when a key set cannot be read.
var ErrKeySet = errors.New("invalid key set")

// Key is a public key and its id.
type Key struct {
	ID     string
	Public ed25519.PublicKey
}

// KeySet holds public keys by id. It is immutable; the zero value has none.
type KeySet struct{ keys []Key }

// NewKeySet makes a set of at most MaxKeys keys with distinct ids.
func NewKeySet(keys ...Key) (*KeySet, error) {
	if len(keys) > MaxKeys {
		return nil, fmt.Errorf("%w: more than %d keys", ErrKeySet, MaxKeys)
	}
	s := &KeySet{keys: slices.Clone(keys)}
	for i, k := range s.keys {
		if k.ID == "" || len(k.ID) > 128 || len(k.Public) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("%w: key %d", ErrKeySet, i)
		}
		if slices.ContainsFunc(s.keys[:i], func(o Key) bool { return o.ID == k.ID }) {
			return nil, fmt.Errorf("%w: key id twice", ErrKeySet)
		}
	}
	return s, nil
}

// ParseKeySet reads a JSON Web Key Set. Keys of other kinds than public Ed25519 signing keys are
// passed over, so that an older reader survives a newer set.
func ParseKeySet(jwks []byte) (*KeySet, error) {
	var raw struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(jwks, &raw); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeySet, err)
	}
	var keys []Key
	for _, r := range raw.Keys {
		var k jose.JSONWebKey
		if err := k.UnmarshalJSON(r); err != nil {
			continue
		}
		if pub, ok := k.Key.(ed25519.PublicKey); ok && (k.Use == "" || k.Use == "sig") {
			keys = append(keys, Key{ID: k.KeyID, Public: pub})
		}
	}
	return NewKeySet(keys...)
}

// Key returns the public key with that id.
func (s *KeySet) Key(kid string) (ed25519.PublicKey, bool) {
	if s == nil {
		return nil, false
	}
	for _, k := range s.keys { // a handful: a scan beats a map
		if k.ID == kid {
			return k.Public, true
		}
	}
	return nil, false
}

// Len is the number of keys.
func (s *KeySet) Len() int {
	if s == nil {
		return 0
	}
	return len(s.keys)
}

// JWKS is the set as a JSON Web Key Set, in the order in which it was made.
func (s *KeySet) JWKS() ([]byte, error) {
	out := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, k := range s.keys {
		out.Keys = append(out.Keys, jose.JSONWebKey{
			Key: k.Public, KeyID: k.ID, Algorithm: string(jose.EdDSA), Use: "sig",
		})
	}
	return json.Marshal(out)
}
