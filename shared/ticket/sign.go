package ticket

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/switchyard-io/switchyard/shared/identity"
)

// wire is the JSON of the claims.
type wire struct {
	Issuer    string      `json:"iss"`
	Audience  audience    `json:"aud"`
	Subject   string      `json:"sub"`
	ID        string      `json:"jti"`
	IssuedAt  json.Number `json:"iat"`
	ExpiresAt json.Number `json:"exp"`
	Purpose   Purpose     `json:"purpose"`
	Region    string      `json:"rgn"`
	Realm     string      `json:"rlm"`
	User      string      `json:"usr"`
	Gen       int64       `json:"gen"`
	Device    *wireDevice `json:"dev,omitempty"`
	Groups    []string    `json:"grp,omitempty"`
	Session   string      `json:"sid,omitempty"`
}

type wireDevice struct {
	ID    string         `json:"id,omitempty"`
	Flag  string         `json:"flag,omitempty"`
	Level identity.Level `json:"lvl,omitempty"`
}

// audience is a string or a list of strings (RFC 7519 section 4.1.3).
type audience []string

func (a audience) MarshalJSON() ([]byte, error) {
	if len(a) == 1 {
		return json.Marshal(a[0])
	}
	return json.Marshal([]string(a))
}

func (a *audience) UnmarshalJSON(b []byte) error {
	var one string
	if strings.HasPrefix(string(b), `"`) {
		err := json.Unmarshal(b, &one)
		*a = audience{one}
		return err
	}
	return json.Unmarshal(b, (*[]string)(a))
}

// Signer makes tickets with one private key.
type Signer struct {
	issuer, audience string
	key              ed25519.PrivateKey
	head             string // the first part of every ticket, with its dot
}

// NewSigner makes a Signer whose tickets name the key by kid. Empty issuer and audience are the
// defaults.
func NewSigner(kid string, key ed25519.PrivateKey, issuer, aud string) (*Signer, error) {
	if kid == "" || len(key) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("%w: signing key", ErrKeySet)
	}
	opts := (&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", kid)
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, opts)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeySet, err)
	}
	head, err := headOf(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeySet, err)
	}
	return &Signer{issuer: or(issuer, DefaultIssuer), audience: or(aud, DefaultAudience), key: slices.Clone(key), head: head}, nil
}

// headOf has an empty ticket signed and keeps its first part: it is the same on all of them.
func headOf(s jose.Signer) (string, error) {
	sig, err := s.Sign(nil)
	if err != nil {
		return "", err
	}
	token, err := sig.CompactSerialize()
	return token[:strings.IndexByte(token, '.')+1], err
}

func or(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

// Sign checks the claims' forms and returns the compact ticket. Instants are cut to whole
// seconds. An error wraps identity.ErrInvalid where the claims are at fault.
func (s *Signer) Sign(c Claims) (string, error) {
	if err := c.Validate(); err != nil {
		return "", err
	}
	w := wire{
		Issuer: s.issuer, Audience: audience{s.audience},
		Subject: c.Identity.AccountID, ID: c.ID, Purpose: c.Purpose,
		IssuedAt: number(c.IssuedAt.Unix()), ExpiresAt: number(c.ExpiresAt.Unix()),
		Region: c.Identity.RegionID, Realm: c.Identity.RealmID, User: c.Identity.UserID, Gen: c.Identity.Generation,
		Groups: c.Groups,
	}
	if c.Device != nil {
		w.Device = &wireDevice{c.Device.ID, c.Device.Flag, c.Device.Level}
	}
	if !c.Lineage.IsZero() {
		w.Session = c.Lineage.String()
	}
	body, err := json.Marshal(w)
	if err != nil {
		return "", err
	}
	out := make([]byte, 0, len(s.head)+strict.EncodedLen(len(body))+1+strict.EncodedLen(ed25519.SignatureSize))
	out = strict.AppendEncode(append(out, s.head...), body)
	sig := ed25519.Sign(s.key, out)
	return string(strict.AppendEncode(append(out, '.'), sig)), nil
}

func number(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }
