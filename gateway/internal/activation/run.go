package activation

import (
	"context"
	"errors"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/presence"
	"github.com/switchyard-io/switchyard/gateway/internal/registry"
	"github.com/switchyard-io/switchyard/gateway/internal/session"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/ticket"
)

// run is one activation and how far it has come: what is set is to be undone.
type run struct {
	*Activation
	attempt *session.Attempt
	claims  ticket.Claims
	entry   *session.Entry

	begun        bool // the entry is in the registry
	registered   bool // registration holds a candidate
	registration presence.Registration
	confirmed    []identity.SessionID // evicted sessions
	redeeming    bool                 // the ticket is used, or may be
	reconnect    session.Reconnect
}

func newRun(a *Activation, at *session.Attempt, c ticket.Claims, d identity.Device) *run {
	uid := c.Identity.UID()
	// What lives as long as the session shares memory with the uid.
	c.Identity.RegionID, c.Identity.RealmID, c.Identity.UserID = uid.Split()
	if c.Identity.AccountID == c.Identity.UserID {
		c.Identity.AccountID = c.Identity.UserID
	}
	if d.Flag == identity.DefaultFlag {
		d.Flag = identity.DefaultFlag
	}
	return &run{
		Activation: a, attempt: at, claims: c,
		entry: &session.Entry{
			ID: identity.NewSessionID(uint8(slot.OfUID(uid))), UID: uid, Device: d,
			Listener: at.Listener(), ConnectedAt: time.Now(), Handle: at.Session,
		},
	}
}

// steps goes forward until something fails.
func (r *run) steps(ctx context.Context) error {
	if err := r.begin(); err != nil {
		return err
	}
	if err := r.register(ctx); err != nil {
		return err
	}
	if err := r.redeem(ctx); err != nil {
		return err
	}
	if err := r.commit(ctx); err != nil {
		return err
	}
	// A session that closed meanwhile is not brought back: whoever took it out of the registry
	// has queued the unregister of its route (I13).
	if !r.deps.Registry.MarkActive(r.entry) {
		return session.ErrClosed
	}
	if err := r.deps.Presence.Activated(ctx, r.registration); err != nil {
		return err
	}
	return r.attempt.Announce(session.Grant{
		Identity: r.claims.Identity, Groups: r.claims.Groups, Lineage: r.claims.LineageFor(r.entry.ID),
	}, r.reconnect)
}

func (r *run) begin() error {
	if err := r.attempt.Bind(r.entry); err != nil {
		return err
	}
	if err := r.deps.Registry.Begin(r.entry); err != nil {
		return fault.Wrap(fault.Unavailable, "temporarily unavailable", err)
	}
	r.begun = true
	return nil
}

// gone reports whether the connection has closed meanwhile.
func (r *run) gone() bool { return r.deps.Registry.State(r.entry) == registry.Gone }

// register opens a candidate, under a sequence of its own.
func (r *run) register(ctx context.Context) error {
	rec, ok := r.deps.Registry.Stamp(r.entry)
	if !ok {
		return session.ErrClosed
	}
	registration, err := r.deps.Presence.Register(ctx, presence.RecordOf(rec))
	if err != nil {
		return err
	}
	r.registered, r.registration = true, registration
	return nil
}

func (r *run) redeem(ctx context.Context) error {
	if r.gone() {
		return session.ErrClosed
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < r.cfg.minRedeem() {
		return errTooLate
	}
	r.redeeming = true
	reconnect, err := r.deps.Ledger.Redeem(ctx, r.attempt.Ticket, r.entry.ID, r.entry.Device)
	if errors.Is(err, ErrUsed) || errors.Is(err, ErrUntouched) {
		r.redeeming = false // somebody else's, or nobody's: not ours to release (I5)
	}
	r.reconnect = reconnect
	return err
}

// commit clears the way and makes the route visible. A leader that was lost has taken the
// candidate with it; then the session is registered anew with its successor.
func (r *run) commit(ctx context.Context) error {
	conflicts := r.registration.Conflicts
	for range r.cfg.MaxCommits {
		if r.gone() { // nobody is closed for a client that has left
			return session.ErrClosed
		}
		if err := r.evict(ctx, conflicts); err != nil {
			return err
		}
		// From here on pushes may come for the route, before this process hears that it is there.
		if !r.deps.Registry.MarkCommitting(r.entry, firstSeq) {
			return session.ErrClosed
		}
		more, err := r.deps.Presence.Commit(ctx, r.registration, r.confirmed)
		switch {
		case errors.Is(err, presence.ErrExpired):
			r.registered = false
			if err := r.register(ctx); err != nil {
				return err
			}
			conflicts = r.unconfirmed(r.registration.Conflicts)
		case err != nil:
			return err
		case len(more) == 0:
			return nil
		default:
			conflicts = more
		}
	}
	return fault.Wrap(fault.Unavailable, "temporarily unavailable", errors.New("activation: too many commits"))
}

// firstSeq is the sequence of a session's first register: ids are never used again, so that any
// sequence from it on is this activation's.
const firstSeq = 1

// evict has the conflicting sessions closed, and confirms them. An owner that stays silent does
// not lock the user out: its session counts as confirmed when the time is over, because the
// commit takes its route away, and it is told to close when it reports again (I1). Where too little
// time is left to call an owner silent, nobody is asked and the attempt fails.
func (r *run) evict(ctx context.Context, conflicts []presence.Conflict) error {
	if len(conflicts) == 0 {
		return nil
	}
	wait := r.cfg.EvictTimeout
	if end, ok := ctx.Deadline(); ok { // a silent owner must not use up the time of the commit
		wait = min(wait, time.Until(end)*3/4)
	}
	if wait < r.cfg.minEvict() {
		return errTooLate
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for _, o := range r.deps.Owners.Evict(ctx, conflicts) {
		if o.Confirmed() {
			r.stats.evicted.Add(1)
		} else {
			r.stats.fenced.Add(1)
		}
	}
	for _, c := range conflicts {
		r.confirmed = append(r.confirmed, c.Session)
	}
	return nil
}

func (r *run) unconfirmed(conflicts []presence.Conflict) []presence.Conflict {
	var out []presence.Conflict
next:
	for _, c := range conflicts {
		for _, id := range r.confirmed {
			if id == c.Session {
				continue next
			}
		}
		out = append(out, c)
	}
	return out
}

// undo takes back what was done, latest first, and returns what the client is told: cause, or
// that its ticket is spent when it could not be given back.
func (r *run) undo(ctx context.Context, cause error) error {
	if r.begun {
		if t, ok := r.deps.Registry.Remove(r.entry); ok && t.State >= registry.Committing {
			r.deps.Routes.Unregister(t)
		}
	}
	if r.registered {
		r.deps.Presence.Abort(r.registration)
	}
	if r.redeeming {
		wait := r.cfg.ReleaseTimeout
		if end, ok := ctx.Deadline(); ok && !errors.Is(ctx.Err(), context.Canceled) { // else nobody waits for the answer
			wait = min(wait, time.Until(end))
		}
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
		defer cancel()
		var err error
		select {
		case err = <-r.release(ctx, r.claims.ID, r.entry.ID):
		case <-patience.Done(): // it goes on, but the client is to be answered
			err = patience.Err()
		}
		if err != nil {
			return fault.Wrap(fault.Unauthenticated, fault.ErrUnauthenticated.Message, errors.Join(cause, err))
		}
	}
	return cause
}
