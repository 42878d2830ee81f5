package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard-io/switchyard/shared/identity"
)

const (
	// ReleaseTTL outlives any redeem that could still be on its way when its session is released:
	// requests carry deadlines of at most MaxDeadline and are dropped when late (see shared/deadline).
	ReleaseTTL = 60 * time.Second
	// MaxDeadline bounds how long one call of the ledger may take.
	MaxDeadline = 10 * time.Second

	skewMargin     = 60 * time.Second        // a record outlives its ticket on a clock that is this late
	attemptTimeout = 1500 * time.Millisecond // one write or read, so that several fit a request
	pause          = 50 * time.Millisecond   // between attempts
)

// ErrConflict is what a Store says when the key's last revision is not the expected one.
var ErrConflict = errors.New("ledger: revision conflict")

// ErrUnavailable says that the store could not settle the call before its deadline: the ticket
// may or may not be used up by this session.
var ErrUnavailable = errors.New("ledger: store unavailable")

// Store is the replicated map under the ledger. Any error but ErrConflict leaves open whether a
// write was done.
type Store interface {
	// Write stores value for ttl if the key's last revision is rev (0: none).
	Write(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) error
	// Read returns the latest value and revision as the stream's leader has them. A key that is
	// absent has no value; its revision is not 0 while a marker of its removal remains.
	Read(ctx context.Context, key string) (value []byte, rev uint64, err error)
}

// Outcome is the answer to a redeem or a release.
type Outcome uint8

// The outcomes.
const (
	Done     Outcome = iota + 1
	Used             // another session has used the ticket up
	Released         // redeem: this session gave the ticket back before; it cannot have it again
)

const (
	stateRedeemed = "redeemed"
	stateReleased = "released"
)

type record struct {
	State   string             `json:"state"`
	Session identity.SessionID `json:"session"`
}

// Ledger answers who used a ticket.
type Ledger struct{ store Store }

// New makes a Ledger over a store.
func New(store Store) *Ledger { return &Ledger{store: store} }

// Redeem uses the ticket up for the session. A repeat for the same session is Done again. The
// record is kept until the ticket's expiry and a margin for clocks. The error is ErrUnavailable
// when nothing could be settled within ctx and MaxDeadline.
func (l *Ledger) Redeem(ctx context.Context, id string, session identity.SessionID, expires, now time.Time) (Outcome, error) {
	ttl := max(expires.Sub(now), 0) + skewMargin
	return l.settle(ctx, id, record{stateRedeemed, session}, ttl, func(r record) Outcome {
		switch {
		case r.State == stateRedeemed && r.Session == session:
			return Done
		case r.State == stateRedeemed:
			return Used
		case r.Session == session: // a late redeem must not undo the release
			return Released
		}
		return 0
	})
}

// Release makes the ticket usable again that the session had redeemed, or may have: a redeem of
// that session that is still on its way finds the release and fails. Used means that the ticket
// is another session's, which stays so.
func (l *Ledger) Release(ctx context.Context, id string, session identity.SessionID) (Outcome, error) {
	return l.settle(ctx, id, record{stateReleased, session}, ReleaseTTL, func(r record) Outcome {
		switch {
		case r.State == stateReleased && r.Session == session:
			return Done
		case r.State == stateRedeemed && r.Session != session:
			return Used
		case r.State == stateReleased: // another session's release says as much
			return Done
		}
		return 0
	})
}

// settle writes want, or finds that the stored record decides (outcome not 0).
func (l *Ledger) settle(ctx context.Context, id string, want record, ttl time.Duration, decide func(record) Outcome) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, MaxDeadline)
	defer cancel()
	value, err := json.Marshal(want)
	if err != nil {
		return 0, err
	}
	// A redeem finds no record nearly always: write first. A release finds one: read first.
	var rev uint64
	know := want.State == stateRedeemed
	for ctx.Err() == nil {
		if know {
			if err = l.write(ctx, id, value, rev, ttl); err == nil {
				return Done, nil
			}
		}
		var old record
		var found bool
		old, rev, found, err = l.read(ctx, id)
		know = err == nil
		if !know {
			wait(ctx, pause)
			continue
		}
		if found {
			if o := decide(old); o != 0 {
				return o, nil
			}
		}
	}
	return 0, fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(err, ctx.Err()))
}

func (l *Ledger) write(ctx context.Context, id string, value []byte, rev uint64, ttl time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return l.store.Write(ctx, id, value, rev, ttl)
}

func (l *Ledger) read(ctx context.Context, id string) (record, uint64, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	value, rev, err := l.store.Read(ctx, id)
	if err != nil || len(value) == 0 {
		return record{}, rev, false, err
	}
	var r record
	if err := json.Unmarshal(value, &r); err != nil {
		return record{}, 0, false, fmt.Errorf("ledger: record: %w", err)
	}
	return r, rev, true, nil
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
