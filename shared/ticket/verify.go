package ticket

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/switchyard-io/switchyard/shared/identity"
)

// MaxSkew is how far ahead of the verifier's clock iat may be.
const MaxSkew = 30 * time.Second

// MaxTTL is the longest life that may be configured for any ticket.
const MaxTTL = time.Hour

// Keys finds public keys. Implementations are safe for concurrent use and never block.
type Keys interface {
	Key(kid string) (ed25519.PublicKey, bool)
}

// VerifierConfig says what a Verifier accepts.
type VerifierConfig struct {
	Issuer       string        // default DefaultIssuer
	Audience     string        // default DefaultAudience
	LoginTTL     time.Duration // longest life of a login ticket, default MaxTTL
	ReconnectTTL time.Duration // longest life of a reconnect ticket, default MaxTTL
}

// Verifier checks tickets against a set of public keys.
type Verifier struct {
	cfg  VerifierConfig
	keys Keys
	// known is the header that was accepted last. A key's tickets all begin with the same header,
	// so nearly every ticket's has been read already.
	known atomic.Pointer[header]
}

// header is the first part of a ticket, as it was written, and the key id that it names.
type header struct{ text, kid string }

// NewVerifier refuses lives that are negative or over MaxTTL. Lives are rounded up to whole
// seconds, the resolution of a ticket's instants.
//
// A gateway leaves the lives at their defaults: ticketing, which knows the configured ones,
// verifies each ticket again when it is redeemed.
func NewVerifier(cfg VerifierConfig, keys Keys) (*Verifier, error) {
	cfg.Issuer, cfg.Audience = or(cfg.Issuer, DefaultIssuer), or(cfg.Audience, DefaultAudience)
	for _, ttl := range []*time.Duration{&cfg.LoginTTL, &cfg.ReconnectTTL} {
		if *ttl == 0 {
			*ttl = MaxTTL
		}
		if *ttl < 0 || *ttl > MaxTTL {
			return nil, fmt.Errorf("%w: ticket life must be over 0 and at most %s", identity.ErrInvalid, MaxTTL)
		}
		*ttl = WholeSeconds(*ttl)
	}
	return &Verifier{cfg: cfg, keys: keys}, nil
}

// WholeSeconds rounds a life up to whole seconds.
func WholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

// Verify checks form, signature, parties and times of a compact ticket and returns its claims.
// The error is a *Refusal. The ticket is valid at now when iat <= now + MaxSkew and now < exp.
func (v *Verifier) Verify(token string, now time.Time) (Claims, error) {
	if len(token) > MaxBytes || strings.ContainsAny(token, "\r\n") { // line ends: base64 decoders skip them, strict ones too
		return Claims{}, ErrMalformed
	}
	body, err := v.open(token)
	if err != nil {
		return Claims{}, err
	}
	var w wire
	if err := json.Unmarshal(body, &w); err != nil {
		return Claims{}, ErrMalformed
	}
	if w.Issuer != v.cfg.Issuer || !slices.Contains(w.Audience, v.cfg.Audience) {
		return Claims{}, ErrWrongParty
	}
	c, err := w.claims()
	if err != nil || c.Validate() != nil {
		return Claims{}, ErrMalformed
	}
	return c, v.checkTimes(c, now)
}

// open returns the payload of a ticket that a known key has signed. Only compact EdDSA is even
// parsed, so "none" and HMAC with a public key as the secret have no way in.
func (v *Verifier) open(token string) ([]byte, error) {
	head, rest, _ := strings.Cut(token, ".")
	if h := v.known.Load(); h != nil && h.text == head {
		return v.openKnown(token, h.kid, rest)
	}
	sig, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil {
		var alg *jose.ErrUnexpectedSignatureAlgorithm
		if errors.As(err, &alg) {
			return nil, ErrAlgorithm
		}
		return nil, ErrMalformed
	}
	kid := sig.Signatures[0].Header.KeyID
	if kid == "" {
		return nil, ErrMalformed
	}
	key, ok := v.keys.Key(kid)
	if !ok {
		return nil, ErrUnknownKey
	}
	body, err := sig.Verify(key)
	if err != nil {
		return nil, ErrSignature
	}
	v.known.Store(&header{strings.Clone(head), kid}) // signed: nobody else decides what is kept
	return body, nil
}

// strict refuses all but one spelling of the same bytes.
var strict = base64.RawURLEncoding.Strict()

// openKnown is open for a ticket whose header was accepted on another: only the rest is new. It
// saves most of the work besides the signature itself.
func (v *Verifier) openKnown(token, kid, rest string) ([]byte, error) {
	payload, signature, ok := strings.Cut(rest, ".")
	if !ok {

		return nil, ErrMalformed
	}
	var sig [ed25519.SignatureSize]byte
	if len(signature) != strict.EncodedLen(len(sig)) {
		return nil, ErrSignature
	}
	if _, err := strict.Decode(sig[:], []byte(signature)); err != nil {
		return nil, ErrMalformed
	}
	key, ok := v.keys.Key(kid)
	if !ok {
		return nil, ErrUnknownKey
	}
	if !ed25519.Verify(key, []byte(token[:len(token)-len(signature)-1]), sig[:]) {
		return nil, ErrSignature
	}
	body, err := strict.DecodeString(payload)
	if err != nil {
		return nil, ErrMalformed
	}
	return body, nil
}

func (v *Verifier) checkTimes(c Claims, now time.Time) error {
	limit := v.cfg.LoginTTL
	if c.Purpose == Reconnect {
		limit = v.cfg.ReconnectTTL
	}
	switch {
	case !now.Before(c.ExpiresAt):
		return ErrExpired
	case c.IssuedAt.After(now.Add(MaxSkew)):
		return ErrFuture
	case c.ExpiresAt.Sub(c.IssuedAt) > limit:
		return ErrLifeTooLong
	}
	return nil
}

func (w wire) claims() (Claims, error) {
	iat, err1 := instant(w.IssuedAt)
	exp, err2 := instant(w.ExpiresAt)
	c := Claims{
		ID: w.ID, Purpose: w.Purpose, Groups: w.Groups, IssuedAt: iat, ExpiresAt: exp,
		Identity: identity.Identity{
			AccountID: w.Subject, UserID: w.User, RegionID: w.Region, RealmID: w.Realm, Generation: w.Gen,
		},
	}
	if w.Device != nil {
		c.Device = &Device{w.Device.ID, w.Device.Flag, w.Device.Level}
	}
	var err3 error
	if w.Session != "" {
		c.Lineage, err3 = identity.ParseSessionID(w.Session)
	}
	return c, errors.Join(err1, err2, err3)
}

// instant reads a NumericDate, which may have a fraction, of a year that a clock can show.
func instant(n json.Number) (time.Time, error) {
	f, err := n.Float64()
	if err != nil || math.IsNaN(f) || f < 0 || f > 1<<40 {
		return time.Time{}, ErrMalformed
	}
	whole, frac := math.Modf(f)
	return time.Unix(int64(whole), int64(frac*1e9)).UTC(), nil
}
