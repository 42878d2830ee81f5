package delivery

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// Config bounds the links. Zero fields take the defaults.
type Config struct {
	// MaxOwners bounds the links. Default 4096.
	MaxOwners int
	// QueueParcels and QueueBytes bound what waits for one owner. Defaults 65536 and 32 MiB.
	QueueParcels int
	QueueBytes   int
	// BatchParcels and BatchBytes bound one owner-push message; a parcel larger than BatchBytes
	// goes alone. Defaults 512 and 256 KiB.
	BatchParcels int
	BatchBytes   int
	// InFlight bounds the batches of one owner that wait for results, so that one owner that
	// hangs cannot use up the calls of all. Default 1024.
	InFlight int
}

func (c Config) withDefaults() Config {
	for _, f := range []struct {
		n   *int
		def int
	}{
		{&c.MaxOwners, 4096}, {&c.QueueParcels, 65536}, {&c.QueueBytes, 32 << 20},
		{&c.BatchParcels, 512}, {&c.BatchBytes, 256 << 10}, {&c.InFlight, 1024},
	} {
		if *f.n <= 0 {
			*f.n = f.def
		}
	}
	return c
}

// Calls makes asynchronous calls that leave in order: a natsconn.Caller.
type Calls interface {
	Call(subject string, data []byte, hdr nats.Header, deadline time.Time, cb natsconn.Callback) error
}

// Receipt is told what became of a parcel.
type Receipt interface {
	// Delivered is called once for each index, from any goroutine, possibly before Send returns.
	// It must not block.
	Delivered(index int, d wirepb.Delivery)
}

// Parcel is one push for one session.
type Parcel struct {
	// Push is shared by all parcels of one push, and must not be changed.
	Push    *wirepb.Push
	UID     identity.UID
	Session identity.SessionID
	Seq     uint64
	// Deadline is when the owner's answer is no longer waited for.
	Deadline time.Time
	// Header goes with the batch (trace context); nil for none.
	Header nats.Header
	// Receipt hears of Index.
	Receipt Receipt
	Index   int
}

// addressBytes is what a parcel adds to a message besides its payload, rounded up.
func (p *Parcel) addressBytes() int { return len(p.UID) + 48 }

// pushBytes is what a push adds to a message, rounded up.
func pushBytes(p *wirepb.Push) int {
	return len(p.Payload) + len(p.MessageId) + 18*len(p.ExcludeSessions) + 64
}

// Links are the links to all owners.
type Links struct {
	cfg   Config
	calls Calls
	stats Stats

	wg     sync.WaitGroup
	mu     sync.RWMutex // before link.mu
	closed bool
	owners map[directory.Owner]*link
}

// New makes links without any owner.
func New(cfg Config, calls Calls) *Links {
	return &Links{cfg: cfg.withDefaults(), calls: calls, owners: map[directory.Owner]*link{}}
}

// Send queues a parcel for its owner. Two parcels from one goroutine for one owner arrive in
// order. It never blocks.
func (l *Links) Send(o directory.Owner, p Parcel) {
	k := l.link(o)
	if k == nil {
		l.stats.overflow.Add(1)
		p.Receipt.Delivered(p.Index, wirepb.Delivery_DELIVERY_OVERFLOW)
		return
	}
	k.send(p)
}

// link finds or makes an owner's link; nil when closed or at the bound.
func (l *Links) link(o directory.Owner) *link {
	l.mu.RLock()
	k, closed := l.owners[o], l.closed
	l.mu.RUnlock()
	if k != nil || closed {
		return k
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if k = l.owners[o]; k != nil || l.closed || len(l.owners) >= l.cfg.MaxOwners {
		return k
	}
	k = &link{links: l, owner: o, subject: subject.Owner(o.Gateway, o.Boot, subject.OwnerPush)}
	l.owners[o] = k
	return k
}

// Forget drops the link of an owner that is gone. What is queued still goes out, and finds nobody.
func (l *Links) Forget(o directory.Owner) {
	l.mu.Lock()
	delete(l.owners, o)
	l.mu.Unlock()
}

// Act has an owner do an action, and calls done once: with results in the order of the action's
// sessions, or with an error (natsconn.ErrNoResponders when the owner is gone, fault.ErrTimeout,
// fault.ErrQueueFull). done must not block.
func (l *Links) Act(o directory.Owner, a *wirepb.OwnerAction, deadline time.Time, done func([]wirepb.ActionResult, error)) {
	data, err := a.MarshalVT()
	if err != nil {
		done(nil, fault.From(err))
		return
	}
	l.stats.actions.Add(1)
	err = l.calls.Call(subject.Owner(o.Gateway, o.Boot, subject.OwnerAction), data, nil, deadline, func(m *nats.Msg, err error) bool {
		var reply wirepb.OwnerActionReply
		if err == nil {
			err = reply.UnmarshalVT(m.Data)
		}
		if err == nil && len(reply.Results) != len(a.Sessions) {
			err = fault.ErrInternal
		}
		done(reply.Results, err)
		return true
	})
	if err != nil {
		done(nil, err)
	}
}

// Close lets no more parcels in and waits until the queues are empty; calls in flight end with
// the Calls they were made on.
func (l *Links) Close() {
	l.mu.Lock()
	l.closed = true
	clear(l.owners)
	l.mu.Unlock()
	l.wg.Wait()
}
