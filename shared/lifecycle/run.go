package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// StopTimeout bounds the stop of one stage of services, and of the admin listener.
const StopTimeout = 10 * time.Second

// readyPoll is how often Run asks whether all services are ready, until they are.
const readyPoll = 20 * time.Millisecond

// Plan is what Run runs.
type Plan struct {
	Admin AdminConfig
	// Metrics serves /metrics. nil: not served.
	Metrics http.Handler
	Log     *slog.Logger
	// Services are started in this order, drained and stopped in the reverse: what others need
	// comes first. Neighbours of the same service are started, drained and stopped together.
	Services []Service
	// OnReady is called once, when every service is ready, with the admin listener's address. May be nil.
	OnReady func(adminAddr string)
}

// Run starts the services, serves the admin listener until ctx ends or a service fails, then
// drains (bounded by Admin.DrainTimeout a stage) and stops all (bounded by StopTimeout a stage).
// It returns nil after a clean end by ctx, else the error that ended it joined with those of the stops.
func Run(ctx context.Context, p Plan) error {
	for _, s := range p.Services {
		if err := s.Node().Validate(); err != nil {
			return err
		}
	}
	admin, err := NewAdmin(p.Admin, p.Metrics, p.Log, p.Services...)
	if err != nil {
		return err
	}
	if err := admin.Start(); err != nil {
		return err
	}
	order := stages(p.Services)
	failed := p.start(ctx, order)
	if failed == nil || ctx.Err() != nil { // a start that ctx cut short is the end that was asked for
		failed = p.serve(ctx, admin)
		p.drain(backwards(order), admin.cfg.DrainTimeout)
	}
	errs := []error{failed, p.stop(backwards(order))}
	stopCtx, cancel := context.WithTimeout(context.Background(), StopTimeout)
	defer cancel()
	errs = append(errs, admin.Stop(stopCtx))
	return errors.Join(errs...)
}

// start brings the stages up one after the other, for as long as ctx allows.
func (p Plan) start(ctx context.Context, order [][]Service) error {
	for _, stage := range order {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := each(stage, func(s Service) error { return s.Start(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

// serve waits for the end of ctx (nil) or the failure of a service.
func (p Plan) serve(ctx context.Context, admin *Admin) error {
	failure := make(chan error, len(p.Services))
	quit := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(quit)
	for _, s := range p.Services {
		wg.Go(func() {
			select {
			case err := <-s.Failed():
				failure <- fmt.Errorf("%s %s failed: %w", s.Node().Service, s.Node().ID, err)
			case <-quit:
			}
		})
	}
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failure:
			return err
		case <-poll.C:
			if admin.Ready() != nil {
				continue
			}
			poll.Stop()
			p.Log.Info("ready", "admin", admin.Addr(), "services", len(p.Services))
			if p.OnReady != nil {
				p.OnReady(admin.Addr())
			}
		}
	}
}

func (p Plan) drain(order [][]Service, timeout time.Duration) {
	for _, stage := range order {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		_ = each(stage, func(s Service) error { drainOne(ctx, s, p.Log); return nil })
		cancel()
	}
}

func (p Plan) stop(order [][]Service) error {
	var errs []error
	for _, stage := range order {
		ctx, cancel := context.WithTimeout(context.Background(), StopTimeout)
		errs = append(errs, each(stage, func(s Service) error { return s.Stop(ctx) }))
		cancel()
	}
	return errors.Join(errs...)
}

// each runs f for every service at the same time and names the one whose error it is.
func each(stage []Service, f func(Service) error) error {
	errs := make([]error, len(stage))
	var wg sync.WaitGroup
	for i, s := range stage {
		wg.Go(func() {
			if err := f(s); err != nil {
				errs[i] = fmt.Errorf("%s %s: %w", s.Node().Service, s.Node().ID, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
