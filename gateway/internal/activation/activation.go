package activation

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/presence"
	"github.com/switchyard-io/switchyard/gateway/internal/session"
	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/ticket"
)

// Verifier checks a ticket. It makes no call, but may wait for keys that are newer than those at
// hand.
type Verifier interface {
	Verify(ctx context.Context, token string) (ticket.Claims, error)
}

// Ledger uses tickets up. Both calls may be repeated.
type Ledger interface {
	// Redeem uses a ticket up for one session, and returns its reconnect ticket. ErrUsed: another
	// session has it. ErrUntouched: the ticket is as it was. After any other error it is not known
	// whether the ticket is used.
	Redeem(ctx context.Context, token string, id identity.SessionID, d identity.Device) (session.Reconnect, error)
	// Release makes a ticket usable again that was redeemed for this session, if it was.
	Release(ctx context.Context, ticketID string, id identity.SessionID) error
}

// Presence makes routes at the leader of a user's slot; *presence.Client is one.
type Presence interface {
	Register(ctx context.Context, r presence.Record) (presence.Registration, error)
	Commit(ctx context.Context, r presence.Registration, confirmed []identity.SessionID) ([]presence.Conflict, error)
	Abort(r presence.Registration)
	// Activated makes sure that the slot's newest leader knows a committed, active session.
	Activated(ctx context.Context, r presence.Registration) error
}

// Owners has sessions closed at whichever gateway holds them.
type Owners interface {
	// Evict returns an outcome for each conflict, within ctx.
	Evict(ctx context.Context, conflicts []presence.Conflict) []presence.Outcome
}

// Config has the bounds. All must be above 0.
type Config struct {
	EvictTimeout   time.Duration // how long old owners may take to confirm; then they are fenced
	ReleaseTimeout time.Duration // how long a release may take; its attempt waits no longer than its own time before the client is told that the ticket is spent
	AttemptTimeout time.Duration // the longest that an attempt may take
	MaxConcurrent  int           // activations at work at once; more wait
	MaxCommits     int           // registers and commits of one activation
}

// minEvictTime is the least that old owners get before they are called silent (I1). Where attempts
// are configured to be shorter than usual, it is a share of them.
const minEvictTime = 500 * time.Millisecond

func (c Config) minEvict() time.Duration {
	return min(minEvictTime, c.EvictTimeout, c.AttemptTimeout/10)
}

// minRedeemTime is the least time for which a ticket is used at all: with less it could not be given
// back. Where attempts are configured to be shorter than usual, it is a share of them.
const minRedeemTime = time.Second

func (c Config) minRedeem() time.Duration { return min(minRedeemTime, c.AttemptTimeout/5) }

var (
	errTooLate = fault.Wrap(fault.Unavailable, fault.ErrUnavailable.Message, errors.New("activation: too little time is left"))
	errTooMany = errors.New("activation: too many releases")
)

// Deps are what an Activation needs.
type Deps struct {
	Registry *session.Registry
	Verifier Verifier
	Ledger   Ledger
	Presence Presence
	Owners   Owners
	Routes   session.Routes
}

// Activation runs activations.
type Activation struct {
	cfg      Config
	deps     Deps
	slots    chan struct{} // a token for each activation at work
	draining atomic.Bool
	stats    counters
	releases releases
}

var _ session.Activator = (*Activation)(nil)

// New checks the configuration.
func New(cfg Config, deps Deps) (*Activation, error) {
	if min(cfg.EvictTimeout, cfg.ReleaseTimeout, cfg.AttemptTimeout) <= 0 || min(cfg.MaxConcurrent, cfg.MaxCommits) < 1 {
		return nil, errors.New("activation: all bounds must be above 0")
	}
	a := &Activation{cfg: cfg, deps: deps, slots: make(chan struct{}, cfg.MaxConcurrent)}
	a.releases.ctx, a.releases.cancel = context.WithCancel(context.Background())
	return a, nil
}

// SetDraining refuses new sessions with UNAVAILABLE, or lets them in again.
func (a *Activation) SetDraining(on bool) { a.draining.Store(on) }

// Activate runs one attempt to its end; see session.Activator. Errors are made for the client.
func (a *Activation) Activate(ctx context.Context, at *session.Attempt) error {
	started := time.Now()
	err := a.admit(ctx, at)
	a.stats.done(err, time.Since(started))
	return err
}

func (a *Activation) admit(ctx context.Context, at *session.Attempt) error {
	if a.draining.Load() {
		return fault.ErrUnavailable
	}
	r, err := a.prepare(ctx, at) // a forged ticket takes nobody's turn
	if err != nil {
		return err
	}
	select {
	case a.slots <- struct{}{}:
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
	defer func() { <-a.slots }()
	work, cancel := a.reserve(ctx)
	defer cancel()
	err = r.steps(work)
	if err == nil {
		return nil
	}
	return r.undo(ctx, err)
}

// undoShare is the part of an attempt's time that is kept for taking it back: one in undoShare.
const undoShare = 5

// reserve ends the work before the attempt's own end, so that the client is answered in time
// whatever has to be undone.
func (a *Activation) reserve(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-min(a.cfg.ReleaseTimeout, time.Until(end)/undoShare)))
}

// prepare is what is decided without any call: the ticket, the identity, the device.
func (a *Activation) prepare(ctx context.Context, at *session.Attempt) (*run, error) {
	claims, err := a.deps.Verifier.Verify(ctx, at.Ticket)
	if err != nil {
		return nil, err
	}
	if err := at.Accepts(claims.Identity); err != nil {
		return nil, err
	}
	device, err := claims.ResolveDevice(at.Device)
	if err != nil {
		return nil, api.Malformed("device.", err)
	}
	return newRun(a, at, claims, device), nil
}

// Renew changes a reconnect ticket of the session's own identity and lineage for a new one; see
// session.Activator. A refused renew consumes nothing. After any other error the same ticket may be
// tried again on the same session: it is the same renew. When that session ends, the ticket is released.
func (a *Activation) Renew(ctx context.Context, s *session.Session, token string) (session.Reconnect, error) {
	g := s.Grant()
	if g == nil {
		return session.Reconnect{}, fault.ErrUnauthenticated
	}
	c, err := a.deps.Verifier.Verify(ctx, token)
	if err != nil {
		return session.Reconnect{}, err
	}
	if c.Purpose != ticket.Reconnect || c.Identity != g.Identity || c.Lineage != g.Lineage {
		return session.Reconnect{}, fault.ErrUnauthenticated
	}
	// The redeemer is made up for this renew, it is not the session: the ledger answers a repeat of
	// one redeemer alike, and the ticket with which this very session logged in, or which it has
	// renewed before, is spent (I5). Where it is not known what became of a renew, the session keeps
	// its redeemer, so that trying again is the same renew and not a second one.
	redeemer, again := s.TakeRenewal(c.ID)
	if !again {
		redeemer = identity.NewSessionID(s.ID().HashSlot())
	}
	next, err := a.deps.Ledger.Redeem(ctx, token, redeemer, s.Device())
	switch {
	case err == nil && s.Ended(): // nobody gets the new ticket, so that the old one stays good
		a.GiveUp(session.Renewal{TicketID: c.ID, Redeemer: redeemer})
		return session.Reconnect{}, session.ErrClosed
	case err != nil && !errors.Is(err, fault.ErrUnauthenticated):
		if dropped := s.KeepRenewal(session.Renewal{TicketID: c.ID, Redeemer: redeemer}); dropped != nil {
			a.GiveUp(*dropped)
		}
	}
	return next, err
}

// GiveUp releases the ticket of a renew that nobody can try again, so that it is good on another
// session; see session.Activator. Where the renew did not use the ticket up, this changes nothing.
func (a *Activation) GiveUp(r session.Renewal) {
	a.release(context.Background(), r.TicketID, r.Redeemer)
}
