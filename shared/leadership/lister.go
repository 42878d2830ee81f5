package leadership

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
)

// lister decides when the bucket is listed, and does it beside the table's goroutine, one at a
// time. All but the listing itself belongs to that goroutine.
type lister struct {
	t          *Table
	results    chan listing
	running    sync.WaitGroup
	busy       bool
	dueAt      time.Time // zero: not due
	began      time.Time
	seq        uint64 // of the last republished change
	reconnects uint64
}

type listing struct {
	began   time.Time
	entries []offer
	err     error
}

func newLister(t *Table) *lister {
	return &lister{t: t, results: make(chan listing, 1), reconnects: t.nc.Stats().Reconnects}
}

// due asks for a listing at the given time, or earlier.
func (l *lister) due(at time.Time) {
	if l.dueAt.IsZero() || at.Before(l.dueAt) {
		l.dueAt = at
	}
}

// gap reports whether changes before this one were missed.
func (l *lister) gap(m *nats.Msg) bool {
	seq := sequenceOf(m)
	missed := l.seq != 0 && seq != l.seq+1
	l.seq = seq
	return missed
}

func sequenceOf(m *nats.Msg) uint64 {
	seq, err := strconv.ParseUint(m.Header.Get(subject.HeaderSequence), 10, 64)
	if err != nil {
		return 0
	}
	return seq
}

// tick starts the listing that is due.
func (l *lister) tick(ctx context.Context, now time.Time) {
	if r := l.t.nc.Stats().Reconnects; r != l.reconnects {
		l.reconnects = r // changes may have passed meanwhile
		l.due(now)
	}
	if l.busy || l.dueAt.IsZero() || now.Before(l.dueAt) || now.Sub(l.began) < listSpacing || !l.t.nc.IsConnected() {
		return
	}
	l.busy, l.dueAt, l.began = true, time.Time{}, now
	l.running.Go(func() { l.results <- l.t.list(ctx, now) })
}

// done plans the next listing.
func (l *lister) done(r listing) {
	l.busy = false
	if r.err != nil {
		l.due(time.Now().Add(2 * listSpacing))
		return
	}
	l.due(r.began.Add(l.t.cfg.ListEvery))
}

func (l *lister) wait() { l.running.Wait() }

// list reads all records from whichever replica answers.
func (t *Table) list(ctx context.Context, began time.Time) listing {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	r := listing{began: began}
	keys, err := t.bucket.list(ctx, slot.Count)
	if err != nil {
		r.err = err
		return r
	}
	for _, k := range keys {
		id, ok := subject.ParseSlotKey(k.key)
		if !ok {
			continue
		}
		if e, err := decodeEntry(k.data, k.seq); err == nil {
			r.entries = append(r.entries, offer{id: id, entry: e})
		}
	}
	return r
}
