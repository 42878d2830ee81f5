package events

import (
	"encoding/json"
	"time"
)

// run is the state of a Publisher's one goroutine.
type run struct {
	*Publisher
	pause   time.Duration
	flight  int      // publishes without a result
	waiting []*trial // for their next try, in the order in which it is due
	logged  time.Time
}

// open is how many events are between their first publish and their end.
func (r *run) open() int { return r.flight + len(r.waiting) }

// loop publishes until stop says so, or, where there is an end, until nothing is left or it has come.
func (r *run) loop(stop <-chan struct{}, end <-chan time.Time) {
	retry := time.NewTimer(0)
	defer retry.Stop()
	for end == nil || len(r.queue)+r.open() > 0 {
		queue, due := r.queue, retry.C
		if r.open() >= r.cfg.InFlight {
			queue = nil
		}
		if len(r.waiting) == 0 {
			due = nil
		} else {
			retry.Reset(time.Until(r.waiting[0].due))
		}
		select {
		case e := <-queue:
			r.begin(e)
		case res := <-r.results:
			r.flight--
			r.settle(res.trial, res.err)
		case <-due:
			t := r.waiting[0]
			r.waiting = r.waiting[1:]
			r.retried.Add(1)
			r.try(t)
		case <-stop:
			return
		case <-end:
			return
		}
	}
}

func (r *run) begin(e Event) {
	data, err := json.Marshal(e)
	if err != nil {
		r.lose(e, err)
		return
	}
	r.try(&trial{event: e, data: data, first: time.Now()})
}

func (r *run) try(t *trial) {
	r.flight++
	r.send(t)
}

// settle ends a trial, or has it tried again.
func (r *run) settle(t *trial, err error) {
	now := time.Now()
	switch {
	case err == nil:
		r.published.Add(1)
	case now.Add(r.pause).Sub(t.first) > r.cfg.RetryFor:
		r.lose(t.event, err)
	default:
		t.due = now.Add(r.pause)
		r.waiting = append(r.waiting, t)
	}
}

func (r *run) lose(e Event, err error) {
	n := r.lost.Add(1)
	if now := time.Now(); now.Sub(r.logged) >= logEvery {
		r.logged = now
		r.cfg.Log.Warn("event lost", "subject", e.Subject(), "error", err, "lost", n)
	}
}
