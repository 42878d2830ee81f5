package activation_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/presence"
	"github.com/switchyard-io/switchyard/shared/fault"
)

// TestAReleaseOutlastsItsAttempt: the client is answered in time, the ticket is given back all the same.
func TestAReleaseOutlastsItsAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.redeemed = func(ctx context.Context) error { <-ctx.Done(); return fault.ErrUnavailable }
		w.release = func(ctx context.Context) error {
			select {
			case <-time.After(1500 * time.Millisecond): // synthetic: the attempt has a second left
				w.note("released")
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		w.login()
		<-time.After(5 * time.Second)
		synctest.Wait()
		w.expect(t, "register redeem abort release:j1 refused")
		if n := w.act.Stats().Releasing; n != 1 {
			t.Errorf("%d releases under way", n)
		}
		w.act.Stop(t.Context())
		w.expect(t, "released")
		if st := w.act.Stats(); st.Releasing != 0 || st.Spent != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestStopCutsReleasesShort: a stop waits for releases no longer than it may.
func TestStopCutsReleasesShort(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.commit = func() ([]presence.Conflict, error) { return nil, fault.ErrUnavailable }
		w.release = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		w.login()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.act.Stop(ctx)
		if took := time.Since(began); took != time.Second || w.act.Stats().Spent != 1 {
			t.Errorf("took %s, %+v", took, w.act.Stats())
		}
	})
}

// TestNoTicketIsUsedTooLate: it could not be given back.
func TestNoTicketIsUsedTooLate(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.register = func() ([]presence.Conflict, error) {
			<-time.After(3100 * time.Millisecond) // synthetic: of 4 s
			return nil, nil
		}
		w.login()
		<-time.After(4 * time.Second)
		synctest.Wait()
		w.expect(t, "register abort refused")
		if code := w.errorCode(t); code != fault.Unavailable {
			t.Errorf("told %s", code)
		}
	})
}
