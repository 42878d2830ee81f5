package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/keyring"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/ticket"
)

// keyWait is how long a ticket with an unknown key waits for a fetch of the keys.
const keyWait = 2 * time.Second

// tickets verifies tickets with the keys at hand. A key that was made since the last fetch is
// waited for; a forger waits as long and gains nothing. Without an answer from ticketing an unknown
// key is nobody's fault: UNAVAILABLE.
type tickets struct {
	keys     *keyring.Keyring
	verifier *ticket.Verifier
}

func newTickets(keys *keyring.Keyring) (*tickets, error) {
	v, err := ticket.NewVerifier(ticket.VerifierConfig{}, keys)
	return &tickets{keys: keys, verifier: v}, err
}

func (t *tickets) Verify(ctx context.Context, token string) (ticket.Claims, error) {
	c, err := t.verifier.Verify(token, time.Now())
	if !errors.Is(err, ticket.ErrUnknownKey) {
		return c, err
	}
	ctx, cancel := context.WithTimeout(ctx, keyWait)
	defer cancel()
	if err := t.keys.Refresh(ctx); err != nil {
		return c, fault.Wrap(fault.Unavailable, fault.ErrUnavailable.Message, err)
	}
	return t.verifier.Verify(token, time.Now())
}
