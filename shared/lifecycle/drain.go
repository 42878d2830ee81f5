package lifecycle

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// stages groups neighbours of the same service: they are started, drained and stopped together.
func stages(services []Service) [][]Service {
	var out [][]Service
	for _, s := range services {
		if n := len(out); n > 0 && out[n-1][0].Node().Service == s.Node().Service {
			out[n-1] = append(out[n-1], s)
			continue
		}
		out = append(out, []Service{s})
	}
	return out
}

// drains runs the drains that were asked for over HTTP: at most one a service.
type drains struct {
	timeout time.Duration
	log     *slog.Logger

	mu      sync.Mutex
	running map[string]*drainRun // by boot id; bounded by the services of the process
	stopped bool
}

// drainRun is one request's drain.
type drainRun struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func newDrains(timeout time.Duration, log *slog.Logger) *drains {
	return &drains{timeout: timeout, log: log, running: make(map[string]*drainRun)}
}

// begin drains what does not drain yet, the last started first, and returns at once.
func (d *drains) begin(services []Service) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return
	}
	var fresh []Service
	var turns []context.Context
	ended := make([]func(), 0, len(services))
	for _, s := range services {
		id := s.Node().Boot
		if d.running[id] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		run := &drainRun{cancel: cancel, done: make(chan struct{})}
		d.running[id] = run
		fresh, turns = append(fresh, s), append(turns, ctx)
		ended = append(ended, func() { d.end(id, run) })
	}
	go func() {
		var wg sync.WaitGroup
		last := len(fresh)
		for _, stage := range backwards(stages(fresh)) {
			first := last - len(stage)
			for i := first; i < last; i++ {
				wg.Go(func() {
					defer ended[i]()
					ctx, cancel := context.WithTimeout(turns[i], d.timeout)
					defer cancel()
					drainOne(ctx, fresh[i], d.log)
				})
			}
			wg.Wait()
			last = first
		}
	}()
}

func (d *drains) end(id string, run *drainRun) {
	run.cancel()
	d.mu.Lock()
	if d.running[id] == run {
		delete(d.running, id)
	}
	d.mu.Unlock()
	close(run.done)
}

// undo cancels the drains of services, waits for them, and undrains in the order of the start.
// All are cancelled before the first wait: one's turn may come only after another's end.
func (d *drains) undo(ctx context.Context, services []Service) error {
	for _, run := range d.cancel(services) {
		select {
		case <-run.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, s := range services {
		if err := s.Undrain(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *drains) cancel(services []Service) []*drainRun {
	d.mu.Lock()
	defer d.mu.Unlock()
	var runs []*drainRun
	for _, s := range services {
		if run := d.running[s.Node().Boot]; run != nil {
			run.cancel()
			runs = append(runs, run)
		}
	}
	return runs
}

// stop cancels all drains and waits for them.
func (d *drains) stop() {
	d.mu.Lock()
	d.stopped = true
	var waits []*drainRun
	for _, run := range d.running {
		run.cancel()
		waits = append(waits, run)
	}
	d.mu.Unlock()
	for _, run := range waits {
		<-run.done
	}
}

func drainOne(ctx context.Context, s Service, log *slog.Logger) {
	n := s.Node()
	log = log.With("service", n.Service, "node", n.ID)
	if ctx.Err() != nil { // taken back before its turn
		return
	}
	log.Info("draining")
	if err := s.Drain(ctx); err != nil {
		log.Warn("drain incomplete", "error", err)
		return
	}
	log.Info("drained")
}

func backwards[T any](in []T) []T {
	out := make([]T, 0, len(in))
	for i := len(in) - 1; i >= 0; i-- {
		out = append(out, in[i])
	}
	return out
}
