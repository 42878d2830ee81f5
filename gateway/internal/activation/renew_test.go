package activation_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/switchyard-io/switchyard/gateway/internal/activation"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/ticket"
)

func TestRenew(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.login()
		w.happened()
		good := ticket.Claims{ID: "j2", Purpose: ticket.Reconnect, Identity: alice, Lineage: w.session.ID()}
		login, other, foreign := good, good, good
		login.Purpose = ticket.Login
		other.Identity.UserID = "bob"
		foreign.Lineage = identity.NewSessionID(0)
		for _, c := range []ticket.Claims{login, other, foreign} {
			w.verify = func() (ticket.Claims, error) { return c, nil }
			if _, err := w.act.Renew(t.Context(), w.session, "x"); !errors.Is(err, fault.ErrUnauthenticated) {
				t.Errorf("%+v: %v", c, err)
			}
		}
		w.expect(t, "") // a refused renew consumes nothing
		w.verify = func() (ticket.Claims, error) { return good, nil }
		if r, err := w.act.Renew(t.Context(), w.session, "x"); err != nil || r.Ticket != "r1" {
			t.Errorf("%+v %v", r, err)
		}
		w.expect(t, "redeem")
		w.redeem = func() error { return fault.ErrUnavailable }
		if _, err := w.act.Renew(t.Context(), w.session, "x"); !errors.Is(err, fault.ErrUnavailable) {
			t.Error(err)
		}
		w.expect(t, "redeem") // not taken back: the next try is the same renew
		w.redeem = func() error { return activation.ErrUsed }
		if _, err := w.act.Renew(t.Context(), w.session, "x"); !errors.Is(err, activation.ErrUsed) {
			t.Error(err)
		}
		w.expect(t, "redeem")
	})
}

// TestARenewIsTriedAgainAsTheSame: while it is not known what became of a renew, a repeat with the
// same ticket has the same redeemer; afterwards, and with another ticket, it has not (I5).
func TestARenewIsTriedAgainAsTheSame(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.login()
		id := "j2"
		w.verify = func() (ticket.Claims, error) {
			return ticket.Claims{ID: id, Purpose: ticket.Reconnect, Identity: alice, Lineage: w.session.ID()}, nil
		}
		w.redeemers = nil
		renew := func(outcome error) {
			t.Helper()
			w.redeem = func() error { return outcome }
			if _, err := w.act.Renew(t.Context(), w.session, "x"); !errors.Is(err, outcome) {
				t.Fatalf("%v, want %v", err, outcome)
			}
		}
		renew(fault.ErrUnavailable)
		renew(activation.ErrUntouched) // the first may still have been heard
		renew(nil)
		renew(activation.ErrUsed)
		renew(fault.ErrUnavailable)
		id = "j3"
		renew(nil)
		r := w.redeemers
		if r[0] != r[1] || r[1] != r[2] {
			t.Errorf("a repeat has another redeemer: %v", r)
		}
		if r[3] == r[2] || r[4] == r[3] || r[5] == r[4] {
			t.Errorf("what is no repeat has the same redeemer: %v", r)
		}
	})
}

// TestI5_RenewIsNoRepeatOfTheLogin: to the ledger a renew is another redeemer than the session,
// else the ticket that logged it in would be good for one more.
func TestI5_RenewIsNoRepeatOfTheLogin(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.login()
		w.verify = func() (ticket.Claims, error) {
			return ticket.Claims{ID: "j2", Purpose: ticket.Reconnect, Identity: alice, Lineage: w.session.ID()}, nil
		}
		w.redeemers = nil
		for range 2 {
			if _, err := w.act.Renew(t.Context(), w.session, "x"); err != nil {
				t.Fatal(err)
			}
		}
		if a, b := w.redeemers[0], w.redeemers[1]; a == b || a == w.session.ID() || b == w.session.ID() {
			t.Fatalf("redeemers %s, %s of session %s", a, b, w.session.ID())
		}
	})
}

// renewing logs in and has every ticket from then on be a reconnect ticket of that session.
func (w *world) renewing() {
	w.login()
	w.verify = func() (ticket.Claims, error) {
		return ticket.Claims{ID: "j2", Purpose: ticket.Reconnect, Identity: alice, Lineage: w.session.ID()}, nil
	}
	w.happened()
	w.redeemers = nil
}

// TestTheEndOfASessionTakesAnUnknownRenewBack: the ticket is good again on another session.
func TestTheEndOfASessionTakesAnUnknownRenewBack(t *testing.T) {
	for name, c := range map[string]struct {
		outcome error
		during  bool // the session ends during the renew
		taken   bool
	}{
		"unknown":         {fault.ErrUnavailable, false, true},
		"known":           {nil, false, false},
		"refused":         {activation.ErrUsed, false, false},
		"unknown, during": {fault.ErrUnavailable, true, true},
		"known, during":   {nil, true, true}, // but not by the client
		"refused, during": {activation.ErrUsed, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.renewing()
				w.redeem = func() error {
					if c.during {
						w.session.Closed(0)
					}
					return c.outcome
				}
				_, err := w.act.Renew(t.Context(), w.session, "x")
				if c.outcome != nil && !errors.Is(err, c.outcome) || c.during && err == nil {
					t.Fatal(err)
				}
				w.session.Closed(0)
				synctest.Wait()
				var want []identity.SessionID
				if c.taken {
					want = w.redeemers[:1]
				}
				if !slices.Equal(w.released, want) {
					t.Errorf("released %v, want %v", w.released, want)
				}
			})
		})
	}
}

// TestOfTwoRenewsAtOnceNoneIsLost: one is remembered and the other is taken back, whichever of them
// has used the ticket up.
func TestOfTwoRenewsAtOnceNoneIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.renewing()
		gate := make(chan struct{})
		w.redeemed = func(context.Context) error { <-gate; return fault.ErrUnavailable }
		for range 2 {
			go func() { _, _ = w.act.Renew(t.Context(), w.session, "x") }()
		}
		synctest.Wait()
		close(gate)
		synctest.Wait()
		if len(w.released) != 1 || !slices.Contains(w.redeemers, w.released[0]) {
			t.Fatalf("released %v of %v", w.released, w.redeemers)
		}
		w.redeemed = nil
		if _, err := w.act.Renew(t.Context(), w.session, "x"); err != nil {
			t.Fatal(err)
		}
		if again := w.redeemers[2]; again == w.released[0] || !slices.Contains(w.redeemers[:2], again) {
			t.Errorf("tried again as %s, of %v", again, w.redeemers)
		}
	})
}
