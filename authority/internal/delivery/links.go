package delivery

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
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
	// InFlight bounds the batches of one owner that wait for a first answer, so that one owner that
	// hangs cannot use up the calls of all. Batches that ask for acknowledgements do not count:
	// their answers are the clients'. Default 1024.
	InFlight int
	// AckParcels bounds the parcels of one owner that ask for an acknowledgement and have no result
	// yet; more overflow. Default 8192.
	AckParcels int
	// AllAckParcels bounds the same over all owners, so that clients that do not acknowledge cannot
	// use up the calls of what needs no acknowledgement. Default 32768.
	AllAckParcels int
	// Gone says that an owner's life is known to be over. That nobody answers on its subject does
	// not: its connection may just be moving to another server (I7). nil: never.
	Gone func(directory.Owner) bool
}

func (c Config) withDefaults() Config {
	for _, f := range []struct {
		n   *int
		def int
	}{
		{&c.MaxOwners, 4096}, {&c.QueueParcels, 65536}, {&c.QueueBytes, 32 << 20},
		{&c.BatchParcels, 512}, {&c.BatchBytes, 256 << 10}, {&c.InFlight, 1024}, {&c.AckParcels, 8192},
		{&c.AllAckParcels, 32768},
	} {
		if *f.n <= 0 {
			*f.n = f.def
		}
	}
	if c.Gone == nil {
		c.Gone = func(directory.Owner) bool { return false }
	}
	return c
}

// errUnreachable is an owner that nobody has declared gone and that does not hear its subject.
var errUnreachable = errors.New("delivery: the owner does not hear its subject")

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

	number uint64 // in its link, from 1
}

func (p *Parcel) expired(now time.Time) bool { return !now.Before(p.Deadline) }

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

	acks   atomic.Int64 // sum of the links'
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
	for {
		k := l.link(o)
		if k == nil {
			l.overflow(&p)
			return
		}
		if k.send(p) {
			return
		}
	}
}

func (l *Links) overflow(p *Parcel) {
	l.stats.overflow.Add(1)
	p.Receipt.Delivered(p.Index, wirepb.Delivery_DELIVERY_OVERFLOW)
}

// link finds or makes an owner's link; nil when closed, or at the bound with none to spare.
func (l *Links) link(o directory.Owner) *link {
	l.mu.RLock()
	k, closed := l.owners[o], l.closed
	l.mu.RUnlock()
	if k != nil || closed {
		return k
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if k = l.owners[o]; k != nil || l.closed {
		return k
	}
	if len(l.owners) >= l.cfg.MaxOwners {
		l.sweepLocked()
	}
	if len(l.owners) >= l.cfg.MaxOwners {
		return nil
	}
	k = &link{links: l, owner: o, subject: subject.Owner(o.Gateway, o.Boot, subject.OwnerPush)}
	l.owners[o] = k
	return k
}

// Forget drops the link of an owner that is gone as soon as it is empty: what is queued still goes
// out, and an owner that comes back meanwhile gets its order from the same queue (I11). A link that
// is made for an owner that is gone, by a push which was under way, ends in the same way.
func (l *Links) Forget(o directory.Owner) {
	l.mu.RLock()
	k := l.owners[o]
	l.mu.RUnlock()
	if k != nil {
		k.forget()
		l.drop(k)
	}
}

// drop takes a link out if it is empty.
func (l *Links) drop(k *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running || len(k.queue) > 0 || k.dead {
		return
	}
	k.dead = true
	if l.owners[k.owner] == k {
		delete(l.owners, k.owner)
	}
}

// sweepLocked makes room: it takes out the links that nothing waits for.
func (l *Links) sweepLocked() {
	for o, k := range l.owners {
		k.mu.Lock()
		if k.dead = !k.running && len(k.queue) == 0 && k.inflight == 0 && k.acks == 0; k.dead {
			delete(l.owners, o)
		}
		k.mu.Unlock()
	}
}

// Flush returns when every parcel has left that was queued before, or with ctx's error. What has
// left is with the connection, which needs a flush of its own, whatever this one returns. What waits
// for an owner that hangs is not waited for: such an owner has no order to keep.
func (l *Links) Flush(ctx context.Context) error {
	waits := map[*link]<-chan struct{}{}
	l.mu.RLock()
	for _, k := range l.owners {
		if c := k.flushed(); c != nil {
			waits[k] = c
		}
	}
	l.mu.RUnlock()
	if len(waits) == 0 {
		return nil
	}
	poll := time.NewTicker(flushPoll)
	defer poll.Stop()
	for k, c := range waits {
		if err := k.await(ctx, c, poll.C); err != nil {
			return err
		}
	}
	return nil
}

// Act has an owner do an action, and calls done once: with results in the order of the action's
// sessions, or with an error (natsconn.ErrNoResponders when the owner is gone for good,
// fault.ErrUnavailable when it cannot be reached, fault.ErrTimeout, fault.ErrQueueFull). done must
// not block.
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
		if errors.Is(err, nats.ErrNoResponders) && !l.cfg.Gone(o) {
			err = fault.Wrap(fault.Unavailable, "temporarily unavailable", errUnreachable)
		}
		done(reply.Results, err)
		return true
	})
	if err != nil {
		done(nil, err)
	}
}

// Close lets no more parcels in, and returns when every queue is empty: what may be sent is sent, and
// what must wait for an owner's answers is settled as not answered. Calls in flight end with the
// Calls they were made on; their answers send nothing more.
func (l *Links) Close() {
	l.mu.Lock()
	l.closed = true
	links := slices.Collect(maps.Values(l.owners))
	clear(l.owners)
	l.mu.Unlock()
	for _, k := range links {
		k.close()
	}
	l.wg.Wait()
}
