package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

const (
	// gatherInbox bounds the answers to one group push that wait; more are dropped and show as a
	// gateway that did not answer.
	gatherInbox = 4096
	// aliveEvery is how often gateways that have not answered are looked up.
	aliveEvery = 250 * time.Millisecond
)

// gateway is one answer that is waited for: of a gateway life about a group.
type gateway struct {
	id         uint64
	node, boot string
}

// PushGroups publishes p to the groups and gathers what the live gateways report. Gateways that
// did not report in time are failures; gateways that are gone are not waited for.
func (d *Dispatcher) PushGroups(ctx context.Context, names []string, p *wirepb.Push, h nats.Header) (*Outcome, error) {
	inbox := d.nc.NewInbox()
	answers := make(chan *nats.Msg, gatherInbox)
	sub, err := d.nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, "temporarily unavailable", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	deadline := time.Now().Add(d.cfg.OwnerTimeout)
	if ack := time.UnixMilli(p.AckDeadlineMs); p.Ack && ack.After(deadline) {
		deadline = ack
	}
	left := map[gateway]bool{}
	for i, name := range names {
		for _, n := range d.gateways.Live(lifecycle.Gateway) {
			left[gateway{uint64(i), n.ID, n.Boot}] = true
		}
		if err := d.publishGroup(uint64(i), name, inbox, p, deadline, h); err != nil {
			return nil, fault.Wrap(fault.Unavailable, "temporarily unavailable", err)
		}
	}
	out := &Outcome{Offline: map[string]bool{}, Unknown: map[string]bool{}}
	d.gather(ctx, answers, left, deadline.Add(answerMargin), out)
	for range left {
		out.Failures = append(out.Failures, Failure{Code: fault.Timeout})
	}
	return out, nil
}

// publishGroup sends the push to the members' gateways and then asks all gateways for results: on
// one connection, so that whoever hears both hears the push first.
func (d *Dispatcher) publishGroup(id uint64, name, inbox string, p *wirepb.Push, deadline time.Time, h nats.Header) error {
	push := wirepb.GroupPush{Id: id, Group: name, Push: p}
	sync := wirepb.GroupSync{Id: id, Group: name, DeadlineMs: deadline.UnixMilli()}
	for _, m := range []struct {
		subject string
		body    interface{ MarshalVT() ([]byte, error) }
	}{{subject.Group(name), &push}, {subject.GatewaysGroupSync, &sync}} {
		data, err := m.body.MarshalVT()
		if err != nil {
			return fmt.Errorf("encoding a group push: %w", err)
		}
		if err := d.nc.PublishMsg(&nats.Msg{Subject: m.subject, Reply: inbox, Data: data, Header: h}); err != nil {
			return fmt.Errorf("publishing a group push: %w", err)
		}
	}
	return nil
}

// gather takes answers until every gateway in left has spoken, is gone, or the deadline is there.
func (d *Dispatcher) gather(ctx context.Context, answers <-chan *nats.Msg, left map[gateway]bool, deadline time.Time, out *Outcome) {
	over := time.NewTimer(time.Until(deadline))
	defer over.Stop()
	check := time.NewTicker(aliveEvery)
	defer check.Stop()
	for len(left) > 0 {
		select {
		case m := <-answers:
			var r wirepb.GroupPushReply
			if len(m.Data) == 0 || r.UnmarshalVT(m.Data) != nil { // empty: no gateway has members
				continue
			}
			out.Sessions = append(out.Sessions, r.Sessions...)
			if r.Final {
				delete(left, gateway{r.Id, r.GatewayId, r.BootId})
			}
		case <-check.C:
			for g := range left {
				if !d.gateways.Alive(lifecycle.Gateway, g.node, g.boot) {
					delete(left, g)
				}
			}
		case <-over.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
