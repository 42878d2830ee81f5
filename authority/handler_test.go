package authority

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/authority/internal/delivery"
	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/authority/internal/leader"
	"github.com/switchyard-io/switchyard/authority/internal/rpc"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/leadership"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// pending keeps calls without an answer until end.
type pending struct {
	mu  sync.Mutex
	cbs []natsconn.Callback
}

func (p *pending) Call(_ string, _ []byte, _ nats.Header, _ time.Time, cb natsconn.Callback) error {
	p.mu.Lock()
	p.cbs = append(p.cbs, cb)
	p.mu.Unlock()
	return nil
}

func (p *pending) end() {
	p.mu.Lock()
	cbs := p.cbs
	p.cbs = nil
	p.mu.Unlock()
	for _, cb := range cbs {
		cb(nil, fault.ErrTimeout)
	}
}

type deaf struct{}

func (deaf) Delivered(int, wirepb.Delivery) {}

// TestI11_ReleaseWaitsForTheQueues: a slot is given away only when the pushes that it took have left,
// so that those of the next leader cannot overtake them.
func TestI11_ReleaseWaitsForTheQueues(t *testing.T) {
	nc := natstest.Conn(t, natstest.Server(t).URL())
	layout := slot.Layout{Logical: 4, ConfigEpoch: 1}
	calls := &pending{}
	links := delivery.New(delivery.Config{InFlight: 1, BatchParcels: 1}, calls)
	dir, err := directory.New(directory.Config{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	l := leader.New(leader.Config{}, layout, dir, links, func(slot.ID) (leadership.Entry, bool) { return leadership.Entry{}, false })
	p := &parts{
		authority: &Authority{log: slog.New(slog.DiscardHandler)}, conns: &natsconn.Conns{Data: nc}, links: links, leader: l,
		server: rpc.New(rpc.Config{}, lifecycle.NewNode(lifecycle.Authority, "a1"), nc, l, nil),
	}
	if err := p.server.Start(layout, nil); err != nil {
		t.Fatal(err)
	}
	defer p.server.Stop()
	for i := range 2 {
		links.Send(directory.Owner{Gateway: "g1", Boot: "b1"}, delivery.Parcel{
			Push: &wirepb.Push{}, Deadline: time.Now().Add(time.Minute), Receipt: deaf{}, Index: i,
		})
	}
	release := func(d time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		p.Releasing(ctx, 1, leadership.Entry{}, leadership.Owner{})
		return ctx.Err()
	}
	if release(200*time.Millisecond) == nil {
		t.Fatal("released beside a waiting push")
	}
	calls.end()
	if err := release(time.Minute); err != nil {
		t.Fatal(err)
	}
	calls.end()
	links.Close()
}
