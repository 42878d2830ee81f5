package activation

import (
	"context"
	"sync"

	"github.com/switchyard-io/switchyard/shared/identity"
)

// maxReleases bounds the releases under way at a time, those included that somebody waits for.
const maxReleases = 4096

// releases give tickets back. Each has the whole ReleaseTimeout, whoever still waits for it.
type releases struct {
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	running int
	stopped bool
}

// begin reserves a place for one release; false when there is none, or after the stop.
func (r *releases) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || r.running >= maxReleases {
		return false
	}
	r.running++
	r.work.Add(1)
	return true
}

func (r *releases) end() {
	r.mu.Lock()
	r.running--
	r.mu.Unlock()
	r.work.Done()
}

func (r *releases) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running
}

// release gives a ticket back in the background, and sends how that ended to the channel. A ticket
// for which there is no place is spent.
func (a *Activation) release(ctx context.Context, ticketID string, redeemer identity.SessionID) <-chan error {
	done := make(chan error, 1)
	if !a.releases.begin() {
		a.stats.spent.Add(1)
		done <- errTooMany
		return done
	}
	go func() {
		defer a.releases.end()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.ReleaseTimeout)
		defer cancel()
		defer context.AfterFunc(a.releases.ctx, cancel)()
		err := a.deps.Ledger.Release(ctx, ticketID, redeemer)
		if err != nil {
			a.stats.spent.Add(1)
		}
		done <- err
	}()
	return done
}

// Stop waits for the releases under way, and cancels what is left of them when ctx ends. No further
// one is begun.
func (a *Activation) Stop(ctx context.Context) {
	r := &a.releases
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	defer context.AfterFunc(ctx, r.cancel)()
	r.work.Wait()
	r.cancel()
}
