package dispatch

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// Failure is a user for whom the outcome is a code; UID is empty where only a session or a
// gateway is known.
type Failure struct {
	UID  string
	Code fault.Code
}

// Outcome is what became of a push. Unknown are users whose slot's leader is missing or rebuilding.
type Outcome struct {
	Sessions []*wirepb.SessionResult
	Offline  map[string]bool
	Unknown  map[string]bool
	Failures []Failure
}

// Push has the leaders deliver p, and returns when all results are in or their time is over.
func (d *Dispatcher) Push(ctx context.Context, users []identity.UID, sessions []identity.SessionID, p *wirepb.Push, h nats.Header) *Outcome {
	out := &Outcome{Offline: map[string]bool{}, Unknown: map[string]bool{}}
	wait := time.Now().Add(d.cfg.LeaderWait)
	x := &exchange{
		op: subject.AuthorityPush, header: h, wait: wait, answer: d.answerBy(wait, p),
		encode: func(gs []*group) ([]byte, error) {
			req := wirepb.AuthorityPushRequest{Push: p, DeadlineMs: wait.UnixMilli()}
			for _, g := range gs {
				req.Groups = append(req.Groups, g.wire())
			}
			return req.MarshalVT()
		},
		decode: out.decode,
		failed: out.failed,
	}
	for _, g := range d.run(ctx, x, groupsOf(users, sessions)) {
		for _, u := range g.users {
			out.Unknown[u] = true
		}
		for range g.sessions {
			out.Failures = append(out.Failures, Failure{Code: fault.Unavailable})
		}
	}
	return out
}

// answerBy is when the answer to a push that may be held until wait must be there.
func (d *Dispatcher) answerBy(wait time.Time, p *wirepb.Push) time.Time {
	by := wait.Add(d.cfg.OwnerTimeout)
	if ack := time.UnixMilli(p.AckDeadlineMs); p.Ack && ack.After(by) {
		by = ack
	}
	return by.Add(2 * answerMargin)
}

func (o *Outcome) decode(data []byte, gs []*group) ([]verdict, error) {
	var r wirepb.AuthorityPushReply
	if err := r.UnmarshalVT(data); err != nil {
		return nil, fault.From(err)
	}
	verdicts := make([]verdict, len(r.Groups))
	for i, g := range r.Groups {
		verdicts[i] = verdict{g.Status, g.Current}
		if g.Status != wirepb.Status_STATUS_OK || i >= len(gs) {
			continue
		}
		o.Sessions = append(o.Sessions, g.Sessions...)
		for _, u := range g.Offline {
			o.Offline[u] = true
		}
		for _, u := range g.Unknown {
			o.Unknown[u] = true
		}
	}
	return verdicts, nil
}

func (o *Outcome) failed(g *group, code fault.Code) {
	for _, u := range g.users {
		o.Failures = append(o.Failures, Failure{u, code})
	}
	for range g.sessions {
		o.Failures = append(o.Failures, Failure{Code: code})
	}
}
