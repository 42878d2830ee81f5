package gateway_test

import (
	"crypto/ed25519"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/ticket"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// fakeTicketing signs, and lets each ticket be used by one session.
type fakeTicketing struct {
	t        *testing.T
	signer   *ticket.Signer
	verifier *ticket.Verifier
	subs     []*nats.Subscription

	mu   sync.Mutex
	used map[string]string // ticket id to session id
}

func startTicketing(t *testing.T, nc *nats.Conn) *fakeTicketing {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeTicketing{t: t, used: map[string]string{}}
	if f.signer, err = ticket.NewSigner("k1", private, "", ""); err != nil {
		t.Fatal(err)
	}
	set, err := ticket.NewKeySet(ticket.Key{ID: "k1", Public: public})
	if err != nil {
		t.Fatal(err)
	}
	jwks, err := set.JWKS()
	if err != nil {
		t.Fatal(err)
	}
	if f.verifier, err = ticket.NewVerifier(ticket.VerifierConfig{}, set); err != nil {
		t.Fatal(err)
	}
	f.subs = append(f.subs,
		subscribe(t, nc, subject.TicketKeys, func(m *nats.Msg) { reply(t, m, &wirepb.KeysReply{Jwks: jwks}) }),
		subscribe(t, nc, subject.TicketRedeem, f.redeem),
		subscribe(t, nc, subject.TicketRelease, f.release))
	return f
}

// stop has nobody answer any more.
func (f *fakeTicketing) stop() {
	for _, s := range f.subs {
		if err := s.Unsubscribe(); err != nil {
			f.t.Error(err)
		}
	}
}

func (f *fakeTicketing) sign(c ticket.Claims) string {
	now := time.Now()
	c.ID, c.IssuedAt, c.ExpiresAt = ticket.NewID(), now, now.Add(time.Minute)
	token, err := f.signer.Sign(c)
	if err != nil {
		f.t.Error(err)
	}
	return token
}

// login is a ticket for a user of eu/main.
func (f *fakeTicketing) login(user string, groups ...string) string {
	return f.sign(ticket.Claims{Purpose: ticket.Login, Groups: groups, Identity: identity.Identity{
		AccountID: user, UserID: user, RegionID: "eu", RealmID: "main", Generation: 1,
	}})
}

func (f *fakeTicketing) redeem(m *nats.Msg) {
	var req wirepb.RedeemRequest
	if req.UnmarshalVT(m.Data) != nil {
		return
	}
	c, err := f.verifier.Verify(req.Ticket, time.Now())
	if err != nil {
		reply(f.t, m, &wirepb.RedeemReply{Status: wirepb.RedeemStatus_REDEEM_STATUS_REFUSED})
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if by := f.used[c.ID]; by != "" && by != string(req.SessionId) {
		reply(f.t, m, &wirepb.RedeemReply{Status: wirepb.RedeemStatus_REDEEM_STATUS_USED})
		return
	}
	f.used[c.ID] = string(req.SessionId)
	c.Lineage = c.LineageFor(identity.SessionID(req.SessionId))
	c.Purpose = ticket.Reconnect
	reply(f.t, m, &wirepb.RedeemReply{
		Status: wirepb.RedeemStatus_REDEEM_STATUS_OK, ReconnectTicket: f.sign(c), ReconnectExpiresInSeconds: 60,
	})
}

func (f *fakeTicketing) release(m *nats.Msg) {
	var req wirepb.ReleaseRequest
	if req.UnmarshalVT(m.Data) != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.used[req.TicketId] == string(req.SessionId) {
		delete(f.used, req.TicketId)
	}
	reply(f.t, m, &wirepb.ReleaseReply{Status: wirepb.RedeemStatus_REDEEM_STATUS_OK})
}
