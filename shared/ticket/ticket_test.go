package ticket

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// mint is a signing key and what it publishes.
type mint struct {
	kid    string
	key    ed25519.PrivateKey
	keys   *KeySet
	signer *Signer
}

func newMint(t testing.TB, kid string, seed byte) *mint {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	keys, err := NewKeySet(Key{ID: kid, Public: key.Public().(ed25519.PublicKey)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSigner(kid, key, "", "")
	if err != nil {
		t.Fatal(err)
	}
	return &mint{kid, key, keys, s}
}

func (m *mint) verifier(t testing.TB) *Verifier {
	t.Helper()
	v, err := NewVerifier(VerifierConfig{LoginTTL: time.Minute, ReconnectTTL: 30 * time.Minute}, m.keys)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// raw signs any header and claims, as only an issuer with the key could.
func (m *mint) raw(header, claims map[string]any) string {
	in := part(header) + "." + part(claims)
	return in + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(m.key, []byte(in)))
}

func part(v map[string]any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func loginClaims() Claims {
	return Claims{
		ID: NewID(), Purpose: Login, IssuedAt: now, ExpiresAt: now.Add(time.Minute),
		Identity: identity.Identity{AccountID: "acc/1", UserID: "alice", RegionID: "eu", RealmID: "main", Generation: 3},
	}
}

func wireClaims(change func(map[string]any)) map[string]any {
	c := map[string]any{
		"iss": DefaultIssuer, "aud": DefaultAudience, "sub": "acc", "jti": "t-1", "purpose": "login",
		"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "rgn": "eu", "rlm": "main", "usr": "alice", "gen": 1,
	}
	change(c)
	return c
}

func TestRoundTrip(t *testing.T) {
	m := newMint(t, "k1", 1)
	for name, change := range map[string]func(*Claims){
		"plain":  func(*Claims) {},
		"device": func(c *Claims) { c.Device = &Device{ID: "d1", Flag: "pc", Level: identity.LevelMaster} },
		"groups": func(c *Claims) { c.Groups = []string{"guild-*", "lobby"} },
		"reconnect": func(c *Claims) {
			c.Purpose, c.Lineage, c.ExpiresAt = Reconnect, identity.NewSessionID(22), now.Add(30*time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := loginClaims()
			change(&want)
			token, err := m.signer.Sign(want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := m.verifier(t).Verify(token, now)
			if err != nil {
				t.Fatal(err)
			}
			a, _ := json.Marshal(want)
			b, _ := json.Marshal(got)
			if !bytes.Equal(a, b) {
				t.Fatalf("got %s, want %s", b, a)
			}
		})
	}
}

// TestI5_TimesHaveNoLeeway: a ticket is over at exp exactly, and not a moment before.
func TestI5_TimesHaveNoLeeway(t *testing.T) {
	m := newMint(t, "k1", 1)
	v := m.verifier(t)
	c := loginClaims()
	token, err := m.signer.Sign(c)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Time]error{
		c.ExpiresAt.Add(-time.Nanosecond): nil,
		c.ExpiresAt:                       ErrExpired,
		c.ExpiresAt.Add(time.Hour):        ErrExpired,
		c.IssuedAt.Add(-MaxSkew):          nil,
		c.IssuedAt.Add(-MaxSkew - 1):      ErrFuture,
	} {
		if _, err := v.Verify(token, at); !errors.Is(err, want) {
			t.Errorf("at %s: %v, want %v", at, err, want)
		}
	}
}

func TestI5_ForgedTicketsAreRefused(t *testing.T) {
	m, other := newMint(t, "k1", 1), newMint(t, "k1", 2)
	v := m.verifier(t)
	header := map[string]any{"alg": "EdDSA", "kid": "k1"}
	claims := wireClaims(func(map[string]any) {})
	good := m.raw(header, claims)
	if _, err := v.Verify(good, now); err != nil {
		t.Fatalf("the unforged one: %v", err)
	}
	parts := strings.Split(good, ".")

	hm := part(map[string]any{"alg": "HS256", "kid": "k1"}) + "." + parts[1]
	mac := hmac.New(sha256.New, m.key.Public().(ed25519.PublicKey)) // the public key as the secret
	mac.Write([]byte(hm))
	hmacked := hm + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))

	for name, c := range map[string]struct {
		token string
		want  error
	}{
		"other key":         {other.raw(header, claims), ErrSignature},
		"claims exchanged":  {parts[0] + "." + part(wireClaims(func(c map[string]any) { c["usr"] = "mallory" })) + "." + parts[2], ErrSignature},
		"header exchanged":  {part(map[string]any{"alg": "EdDSA", "kid": "k1", "x": 1}) + "." + parts[1] + "." + parts[2], ErrSignature},
		"no signature":      {parts[0] + "." + parts[1] + ".", ErrSignature},
		"alg none":          {part(map[string]any{"alg": "none", "kid": "k1"}) + "." + parts[1] + ".", ErrAlgorithm},
		"alg none, signed":  {m.raw(map[string]any{"alg": "none", "kid": "k1"}, claims), ErrAlgorithm},
		"hmac":              {hmacked, ErrAlgorithm},
		"rs256":             {m.raw(map[string]any{"alg": "RS256", "kid": "k1"}, claims), ErrAlgorithm},
		"unknown kid":       {m.raw(map[string]any{"alg": "EdDSA", "kid": "k2"}, claims), ErrUnknownKey},
		"no kid":            {m.raw(map[string]any{"alg": "EdDSA"}, claims), ErrMalformed},
		"own key in header": {other.raw(map[string]any{"alg": "EdDSA", "jwk": map[string]any{"kty": "OKP", "crv": "Ed25519", "x": base64.RawURLEncoding.EncodeToString(other.key.Public().(ed25519.PublicKey))}}, claims), ErrMalformed},
		"unknown crit":      {m.raw(map[string]any{"alg": "EdDSA", "kid": "k1", "crit": []string{"x"}, "x": 1}, claims), ErrSignature},
		"json form":         {`{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`, ErrMalformed},
		"empty":             {"", ErrMalformed},
		"two parts":         {parts[0] + "." + parts[1], ErrMalformed},
		"too long":          {good + strings.Repeat("A", MaxBytes), ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := m.verifier(t).Verify(c.token, now); !errors.Is(err, c.want) {
				t.Errorf("by a verifier that has seen no ticket: %v, want %v", err, c.want)
			}
			_, err := v.Verify(c.token, now)
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if f := fault.From(err); f == nil || f.Code != fault.Unauthenticated || f.Message != fault.ErrUnauthenticated.Message {
				t.Errorf("a client would see %v", f)
			}
		})
	}
}

// TestI5_AKnownHeaderProvesNothing: a header that was accepted before only saves reading it again.
func TestI5_AKnownHeaderProvesNothing(t *testing.T) {
	m := newMint(t, "k1", 1)
	keys := &exchangeable{m.keys}
	v, err := NewVerifier(VerifierConfig{}, keys)
	if err != nil {
		t.Fatal(err)
	}
	token, err := m.signer.Sign(loginClaims())
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(token, ".")
	body, sig, _ := strings.Cut(rest, ".")
	last := map[byte]byte{'A': 'B', 'Q': 'R', 'g': 'h', 'w': 'x'}[sig[len(sig)-1]] // the same bytes, spelt otherwise
	for range 2 {
		if _, err := v.Verify(token, now); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			token string
			want  error
		}{
			"two parts":           {head + "." + body, ErrMalformed},
			"four parts":          {token + ".", ErrSignature},
			"signature cut":       {token[:len(token)-2], ErrSignature},
			"signature no base64": {token[:len(token)-2] + "!!", ErrMalformed},
			"signature respelt":   {token[:len(token)-1] + string(last), ErrMalformed},
			"header folded":       {head[:4] + "\n" + token[4:], ErrMalformed},
			"payload folded":      {head + "." + body[:4] + "\r\n" + body[4:] + "." + sig, ErrMalformed},
			"signature folded":    {token[:len(token)-4] + "\n" + token[len(token)-3:], ErrMalformed},
			"payload exchanged":   {head + "." + body[1:] + "." + sig, ErrSignature},
		} {
			if _, err := v.Verify(c.token, now); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
		// Another header is read as usual, and then is the one that is known.
		other := m.raw(map[string]any{"alg": "EdDSA", "kid": "k1", "x": 1}, wireClaims(func(map[string]any) {}))
		if _, err := v.Verify(other, now); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := v.Verify(token, now); err != nil {
		t.Fatal(err)
	}
	keys.Keys = newMint(t, "k2", 2).keys
	if _, err := v.Verify(token, now); !errors.Is(err, ErrUnknownKey) {
		t.Errorf("a key that was withdrawn: %v", err)
	}
	keys.Keys = newMint(t, "k1", 2).keys
	if _, err := v.Verify(token, now); !errors.Is(err, ErrSignature) {
		t.Errorf("another key of that name: %v", err)
	}
}

// exchangeable keys change while a verifier has them.
type exchangeable struct{ Keys }

func TestI5_WrongClaimsAreRefused(t *testing.T) {
	m := newMint(t, "k1", 1)
	v := m.verifier(t)
	sid := identity.NewSessionID(1).String()
	for name, c := range map[string]struct {
		change func(map[string]any)
		want   error
	}{
		"no purpose":            {func(c map[string]any) { delete(c, "purpose") }, ErrMalformed},
		"empty purpose":         {func(c map[string]any) { c["purpose"] = "" }, ErrMalformed},
		"other purpose":         {func(c map[string]any) { c["purpose"] = "refresh" }, ErrMalformed},
		"life too long":         {func(c map[string]any) { c["exp"] = now.Add(61 * time.Second).Unix() }, ErrLifeTooLong},
		"old but long":          {func(c map[string]any) { c["iat"] = now.Add(-time.Hour).Unix() }, ErrLifeTooLong},
		"reconnect life":        {func(c map[string]any) { c["purpose"], c["sid"], c["exp"] = "reconnect", sid, now.Unix()+1801 }, ErrLifeTooLong},
		"issued ahead":          {func(c map[string]any) { c["iat"], c["exp"] = now.Unix()+31, now.Unix()+60 }, ErrFuture},
		"no iat":                {func(c map[string]any) { delete(c, "iat") }, ErrMalformed},
		"no exp":                {func(c map[string]any) { delete(c, "exp") }, ErrMalformed},
		"exp before iat":        {func(c map[string]any) { c["iat"] = now.Unix() + 20; c["exp"] = now.Unix() + 10 }, ErrMalformed},
		"huge exp":              {func(c map[string]any) { c["exp"] = 1e300 }, ErrMalformed},
		"negative iat":          {func(c map[string]any) { c["iat"] = -1 }, ErrMalformed},
		"exp a string":          {func(c map[string]any) { c["exp"] = "soon" }, ErrMalformed},
		"other issuer":          {func(c map[string]any) { c["iss"] = "x" }, ErrWrongParty},
		"other audience":        {func(c map[string]any) { c["aud"] = "x" }, ErrWrongParty},
		"no audience":           {func(c map[string]any) { delete(c, "aud") }, ErrWrongParty},
		"no id":                 {func(c map[string]any) { delete(c, "jti") }, ErrMalformed},
		"id with a wildcard":    {func(c map[string]any) { c["jti"] = "a.>" }, ErrMalformed},
		"no account":            {func(c map[string]any) { delete(c, "sub") }, ErrMalformed},
		"region with a dot":     {func(c map[string]any) { c["rgn"] = "e.u" }, ErrMalformed},
		"generation 0":          {func(c map[string]any) { c["gen"] = 0 }, ErrMalformed},
		"device flag":           {func(c map[string]any) { c["dev"] = map[string]any{"flag": "PC"} }, ErrMalformed},
		"device level":          {func(c map[string]any) { c["dev"] = map[string]any{"lvl": "king"} }, ErrMalformed},
		"bad glob":              {func(c map[string]any) { c["grp"] = []string{"["} }, ErrMalformed},
		"login with lineage":    {func(c map[string]any) { c["sid"] = sid }, ErrMalformed},
		"reconnect, no lineage": {func(c map[string]any) { c["purpose"] = "reconnect" }, ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			token := m.raw(map[string]any{"alg": "EdDSA", "kid": "k1"}, wireClaims(c.change))
			if _, err := v.Verify(token, now); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

func TestForeignFormsAreRead(t *testing.T) {
	m := newMint(t, "k1", 1)
	v := m.verifier(t)
	for name, change := range map[string]func(map[string]any){
		"list of audiences": func(c map[string]any) { c["aud"] = []string{"x", DefaultAudience} },
		"fraction":          func(c map[string]any) { c["exp"] = float64(now.Unix()) + 0.5 },
		"unknown claim":     func(c map[string]any) { c["new"] = true },
	} {
		if _, err := v.Verify(m.raw(map[string]any{"alg": "EdDSA", "kid": "k1"}, wireClaims(change)), now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestResolveDevice(t *testing.T) {
	master := &Device{ID: "t", Flag: "pc", Level: identity.LevelMaster}
	for name, c := range map[string]struct {
		ticket       *Device
		client, want identity.Device
	}{
		"client's own":         {nil, identity.Device{ID: "c", Flag: "web"}, identity.Device{ID: "c", Flag: "web"}},
		"default flag":         {nil, identity.Device{}, identity.Device{Flag: "app"}},
		"no level for clients": {nil, identity.Device{Level: identity.LevelMaster}, identity.Device{Flag: "app"}},
		"ticket wins":          {master, identity.Device{ID: "c", Flag: "web"}, identity.Device{ID: "t", Flag: "pc", Level: identity.LevelMaster}},
		"ticket leaves the id": {&Device{Flag: "pc"}, identity.Device{ID: "c", Flag: "web"}, identity.Device{ID: "c", Flag: "pc"}},
	} {
		got, err := Claims{Device: c.ticket}.ResolveDevice(c.client)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := (Claims{}).ResolveDevice(identity.Device{Flag: "Not A Flag"}); !errors.Is(err, identity.ErrInvalid) {
		t.Errorf("a malformed flag: %v", err)
	}
}

func TestLineageAndGroups(t *testing.T) {
	first, second := identity.NewSessionID(1), identity.NewSessionID(1)
	if got := (Claims{Purpose: Login}).LineageFor(first); got != first {
		t.Error("a login begins a lineage")
	}
	if got := (Claims{Purpose: Reconnect, Lineage: first}).LineageFor(second); got != first {
		t.Error("a reconnect carries it on")
	}
	c := Claims{Groups: []string{"guild-*", "lobby"}}
	for name, want := range map[string]bool{"guild-7": true, "lobby": true, "lobby2": false, "guild": false} {
		if c.GrantsGroup(name) != want {
			t.Errorf("%s: not %v", name, want)
		}
	}
}

func TestKeySetForms(t *testing.T) {
	a, b := newMint(t, "a", 1), newMint(t, "b", 2)
	ka, _ := a.keys.Key("a")
	kb, _ := b.keys.Key("b")
	set, err := NewKeySet(Key{"a", ka}, Key{"b", kb})
	if err != nil {
		t.Fatal(err)
	}
	jwks, err := set.JWKS()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(jwks, []byte(`"d"`)) {
		t.Fatal("a private part in the public set")
	}
	mixed := strings.Replace(string(jwks), `{"keys":[`, `{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"r"},{"kty":"future"},`, 1)
	got, err := ParseKeySet([]byte(mixed))
	if err != nil || got.Len() != 2 {
		t.Fatalf("%d keys, %v", got.Len(), err)
	}
	if k, ok := got.Key("b"); !ok || !k.Equal(kb) {
		t.Fatal("b is another")
	}
	if _, err := NewKeySet(Key{"a", ka}, Key{"a", kb}); !errors.Is(err, ErrKeySet) {
		t.Fatalf("an id twice: %v", err)
	}
	if _, err := ParseKeySet([]byte("nothing")); !errors.Is(err, ErrKeySet) {
		t.Fatalf("no JSON: %v", err)
	}
}

func TestVerifierRefusesLongLives(t *testing.T) {
	for _, cfg := range []VerifierConfig{{LoginTTL: MaxTTL + 1}, {ReconnectTTL: -1}} {
		if _, err := NewVerifier(cfg, &KeySet{}); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
}

func FuzzVerify(f *testing.F) {
	m, signed := newMint(f, "k1", 1), loginClaims()
	signed.ID = "t-1" // each worker signs for itself, and gets the seeds of another
	token, err := m.signer.Sign(signed)
	if err != nil {
		f.Fatal(err)
	}
	v := m.verifier(f)
	want, err := v.Verify(token, now)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(token)
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := v.Verify(s, now)
		if err == nil && !reflect.DeepEqual(c, want) {
			t.Fatalf("a ticket that was not signed: %+v", c)
		}
	})
}

func BenchmarkSign(b *testing.B) {
	m, c := newMint(b, "k1", 1), loginClaims()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.signer.Sign(c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	m := newMint(b, "k1", 1)
	token, err := m.signer.Sign(loginClaims())
	if err != nil {
		b.Fatal(err)
	}
	v := m.verifier(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Verify(token, now); err != nil {
			b.Fatal(err)
		}
	}
}
