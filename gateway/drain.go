package gateway

import (
	"context"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/owner"
	"github.com/switchyard-io/switchyard/gateway/internal/session"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
)

const (
	// drainStep is the least time between two rounds of closes.
	drainStep = 10 * time.Millisecond
	// drainPoll is how often a drain looks for sessions that were activated in its last moment.
	drainPoll = 50 * time.Millisecond
)

// Drain makes the gateway unready, lets nobody in any more, and closes the sessions (4000) spread
// over half of DrainTimeout, so that their clients do not all reconnect at once. It returns when
// the authority knows that they are gone, or when ctx ends.
func (g *Gateway) Drain(ctx context.Context) error {
	select {
	case g.draining <- struct{}{}:
		defer func() { <-g.draining }()
	case <-ctx.Done():
		return ctx.Err()
	}
	p, err := g.move(lifecycle.Draining)
	if err != nil || p == nil {
		return err
	}
	if err := g.closeAll(ctx, g.cfg.DrainTimeout/2); err != nil {
		return err
	}
	return p.presence.Flush(ctx)
}

// Undrain takes a Drain back: ready again.
func (g *Gateway) Undrain(context.Context) error {
	_, err := g.move(lifecycle.Ready)
	return err
}

// move changes the state and lets everybody know. The parts are nil when Start has not made them.
func (g *Gateway) move(to string) (*parts, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, err := g.Move(to); err != nil {
		return nil, err
	}
	drain := to == lifecycle.Draining
	g.refusing.Store(drain)
	p := g.parts
	if p == nil || p.announcer == nil {
		return nil, nil
	}
	p.activation.SetDraining(drain)
	p.announcer.Pulse()
	return p, nil
}

// closeAll closes every session, evenly over the given time, and then those that came late.
func (g *Gateway) closeAll(ctx context.Context, over time.Duration) error {
	start := time.Now()
	entries := g.sessions.All(nil)
	tick := time.NewTicker(drainStep)
	defer tick.Stop()
	for done := 0; done < len(entries); {
		due := len(entries)
		if spent := time.Since(start); spent < over {
			due = int(int64(len(entries))*int64(spent)/int64(over)) + 1 // the first at once
		}
		for _, e := range entries[done:due] {
			endDraining(e)
		}
		if done = due; done == len(entries) {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	tick.Reset(drainPoll)
	for g.sessions.Len() > 0 {
		for _, e := range g.sessions.All(nil) {
			endDraining(e)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func endDraining(e *session.Entry) {
	e.Handle.End(owner.Ending{Code: fault.CloseDraining, Action: session.ServerDraining, Reason: "the gateway is being drained"})
}
