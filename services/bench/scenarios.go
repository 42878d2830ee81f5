package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/subject"
)

// A Scenario is one kind of run.
type Scenario string

// The scenarios.
const (
	Idle      Scenario = "idle"      // log in and stay: logins a second, memory for each session
	Push      Scenario = "push"      // pushes to single users on their own subjects
	Broadcast Scenario = "broadcast" // one payload to many users in each request
	Group     Scenario = "group"     // one payload to a group of all sessions
	Storm     Scenario = "storm"     // everybody logs in at once, is cut, and logs in again
)

// Scenarios lists them with what they do.
func Scenarios() map[Scenario]string {
	return map[Scenario]string{
		Idle:      "log in and stay: logins a second, memory for each session",
		Push:      "pushes to single users, at a rate (open loop) or as many as go",
		Broadcast: "one payload to many users in each request",
		Group:     "one payload to a group that every session has joined",
		Storm:     "everybody logs in at once, is cut, and logs in again",
	}
}

// Run plays a scenario. workerArgs start this binary as a worker.
func Run(ctx context.Context, s Scenario, o Options, workerArgs ...string) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &run{o: o, report: &Report{Scenario: string(s), Sessions: o.Sessions, Gateways: len(o.Gateways)}}
	var err error
	if r.watched, err = watch(o.PIDs); err != nil {
		return nil, err
	}
	r.report.Process = r.watched
	if r.fleet, err = startFleet(ctx, o.Workers, workerArgs...); r.fleet != nil {
		defer r.fleet.stop()
	}
	if err != nil {
		return nil, err
	}
	if err := r.play(ctx, s); err != nil {
		return nil, err
	}
	return r.report, nil
}

// run is one scenario under way.
type run struct {
	o       Options
	fleet   *fleet
	watched []*Process
	report  *Report
}

func (r *run) play(ctx context.Context, s Scenario) error {
	if err := r.login(); err != nil {
		return err
	}
	switch s {
	case Idle:
		return r.idle(ctx)
	case Storm:
		return r.storm()
	case Push:
		return r.send(ctx, func(_ int, due time.Time) (string, []byte) {
			uid := user(rand.IntN(r.o.Sessions)).UID()
			subj, _ := subject.User(uid, subject.UserPush) // the fleet's user ids are plain tokens
			return subj, pushBody("", nil, payload(due, r.o.Payload))
		})
	case Broadcast:
		batch := min(r.o.Batch, r.o.Sessions)
		return r.send(ctx, func(i int, due time.Time) (string, []byte) {
			users := make([]identity.UID, batch)
			for k := range users {
				users[k] = user((i*batch + k) % r.o.Sessions).UID()
			}
			return subject.Push, pushBody("users", users, payload(due, r.o.Payload))
		})
	case Group:
		const group = "bench"
		if a, _, err := r.fleet.ask(func(int) command { return command{Op: "join", Group: group, Concurrency: r.share()} }); err != nil || a.Failed > 0 {
			return fmt.Errorf("bench: %d sessions could not join the group: %v: %w", a.Failed, a.Failures, err)
		}
		return r.send(ctx, func(_ int, due time.Time) (string, []byte) {
			return subject.Push, pushBody("groups", []identity.UID{group}, payload(due, r.o.Payload))
		})
	}
	return fmt.Errorf("bench: no scenario %q", s)
}

func pushBody(field string, names []identity.UID, payload []byte) []byte {
	b := append(make([]byte, 0, len(payload)+64), `{"route":`...)
	b = strconv.AppendInt(b, route, 10)
	if field != "" {
		list, err := json.Marshal(names)
		if err != nil { // strings only: cannot fail
			panic(err)
		}
		b = append(b, `,"`+field+`":`...)
		b = append(b, list...)
	}
	b = append(b, `,"payload":`...)
	return append(append(b, payload...), '}')
}

// share is a worker's part of the concurrency.
func (r *run) share() int { return max(r.o.Concurrency/r.o.Workers, 1) }

// login brings the whole fleet in.
func (r *run) login() error {
	per := (r.o.Sessions + r.o.Workers - 1) / r.o.Workers
	tickets, _, err := r.fleet.ask(func(w int) command {
		first := min(w*per, r.o.Sessions)
		return command{Op: "tickets", NATS: r.o.NATS, First: first, Count: min(per, r.o.Sessions-first), Concurrency: r.share()}
	})
	if err != nil {
		return err
	}
	if tickets.Failed > 0 {
		return fmt.Errorf("bench: %d tickets were refused: %v", tickets.Failed, tickets.Failures)
	}
	if err := restart(r.watched); err != nil {
		return err
	}
	start := time.Now()
	a, h, err := r.fleet.ask(func(int) command {
		return command{Op: "login", Gateways: r.o.Gateways, Concurrency: r.share()}
	})
	if err != nil {
		return err
	}
	took := time.Since(start).Seconds()
	r.report.Logins = &Logins{
		Done: a.Done, Failed: a.Failed, Failures: a.Failures,
		Seconds: took, PerSecond: float64(a.Done) / took, Latency: summarize(h),
	}
	return finish(r.watched)
}

// idle waits and reads the memory.
func (r *run) idle(ctx context.Context) error {
	if err := sleep(ctx, r.o.Settle); err != nil {
		return err
	}
	if err := finish(r.watched); err != nil {
		return err
	}
	done := r.report.Logins.Done
	for _, p := range r.watched {
		if here := int64(done / len(r.o.Gateways)); here > 0 {
			p.PerSession = (p.RSS - p.RSSBefore) / here
		}
	}
	return r.collect(nil)
}

// storm cuts everybody and lets them in again: the second logins are the report's.
func (r *run) storm() error {
	if _, _, err := r.fleet.ask(func(int) command { return command{Op: "close"} }); err != nil {
		return err
	}
	return r.login()
}

// send plays the backend while the clients measure.
func (r *run) send(ctx context.Context, build func(i int, due time.Time) (string, []byte)) error {
	nc, err := nats.Connect(r.o.NATS)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer nc.Close()
	s, sub, err := newSender(nc, r.o.InFlight)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection is closed next
	if err := restart(r.watched); err != nil {
		return err
	}
	sent, took, err := s.run(ctx, r.o, build)
	if err != nil {
		return err
	}
	if err := finish(r.watched); err != nil {
		return err
	}
	p := &Pushes{
		Requests: sent, Seconds: took.Seconds(), PerSecond: float64(sent) / took.Seconds(),
		Replies: s.replied.Load(), Faults: s.faults.Load(), Delivered: s.reached.Load(), Missed: s.missed.Load(),
		ReplyLatency: summarize(s.reply.take()),
	}
	r.report.Pushes = p
	return r.collect(p)
}

// collect asks the workers for what their clients saw.
func (r *run) collect(p *Pushes) error {
	a, h, err := r.fleet.ask(func(int) command { return command{Op: "report"} })
	if err != nil {
		return err
	}
	r.report.Closed = a.Closed
	if p != nil {
		p.Received = a.Received
		p.ReceivedPerSecond = float64(a.Received) / p.Seconds
		p.Latency = summarize(h)
	}
	return nil
}
