package leadership

import (
	"context"
	"errors"
	"time"

	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
)

// errTaken says that the record is not what the decision rested on.
var errTaken = errors.New("record changed meanwhile")

// outcome of one write.
type outcome struct {
	entry Entry // the record as far as it is known now
	err   error // nil: written
}

// guard is what a tenure rests on, read before the write that proves it.
func (e *Engine) guard() tenure {
	return tenure{reconnects: e.nc.Stats().Reconnects, lapses: e.lease.lapses.Load()}
}

// claim tries to take slots at term + 1.
func (s *steward) claim(ctx context.Context, ids []slot.ID) {
	if len(ids) == 0 {
		return
	}
	guard := s.e.guard()
	results := make([]outcome, len(ids))
	each(ids, func(i int, id slot.ID) { results[i] = s.e.tryClaim(ctx, id, s.entry(id)) })
	acquired := 0
	for i, id := range ids {
		r := results[i]
		if r.entry.Term > 0 {
			s.learn(id, r.entry)
		}
		count(s.e.counts.claims, "result", result(r.err))
		switch {
		case r.err == nil:
			t := guard
			t.entry = r.entry
			s.hold(id, t, true)
			acquired++
		case errors.Is(r.err, errUnavailable):
			s.retry[id] = time.Now().Add(claimRetry)
			s.e.cfg.Log.Warn("slot could not be claimed", "slot_id", int(id), "error", r.err)
		}
	}
	if acquired > 0 {
		s.e.cfg.Log.Info("slots acquired", "count", acquired)
	}
	s.e.cfg.Pulse()
}

// tryClaim reads the record through the stream's leader and, if it is still what the decision
// rested on, replaces it.
func (e *Engine) tryClaim(ctx context.Context, id slot.ID, seen Entry) outcome {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	stored, v, err := e.read(ctx, id)
	if err != nil {
		return outcome{err: err}
	}
	if stored.Newer(seen) {
		return outcome{stored, errTaken}
	}
	// Where the record is gone or older than what was seen (the bucket was lost), the term goes on
	// from the highest that anybody remembers.
	won := Entry{
		Leader: e.self, Term: max(stored.Term, seen.Term) + 1,
		ConfigEpoch: max(e.table.layout.ConfigEpoch, stored.ConfigEpoch, seen.ConfigEpoch),
	}
	return e.write(ctx, id, won, v.seq)
}

// read returns the stored record; a missing or broken one is the zero Entry.
func (e *Engine) read(ctx context.Context, id slot.ID) (Entry, value, error) {
	v, err := e.bucket.get(ctx, subject.SlotKey(id))
	if err != nil || !v.live {
		return Entry{}, v, err
	}
	stored, err := decodeEntry(v.data, v.seq)
	if err != nil {
		e.cfg.Log.Error("slot record not understood", "slot_id", int(id), "error", err)
		return Entry{}, v, nil
	}
	return stored, v, nil
}

// write replaces the record whose sequence is given. When the result is not known, or another
// write came first, it reads what came of it: its own entry there is a success.
func (e *Engine) write(ctx context.Context, id slot.ID, want Entry, seq uint64) outcome {
	rev, err := e.bucket.put(ctx, subject.SlotKey(id), want.encode(), seq, 0)
	if err == nil {
		want.Revision = rev
		return outcome{want, nil}
	}
	again, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	stored, _, rerr := e.read(again, id)
	switch {
	case rerr != nil:
		return outcome{err: err}
	case stored.sameLeadership(want) && stored.ReleasedTo == want.ReleasedTo && stored.Revision > seq:
		return outcome{stored, nil}
	case errors.Is(err, errConflict):
		return outcome{stored, errTaken}
	}
	return outcome{stored, err}
}

// confirm proves tenures that have become uncertain: a compare-and-set of the same record shows
// that nobody took the slot meanwhile. The term goes on, and so does the directory.
func (s *steward) confirm(ctx context.Context) {
	guard := s.e.guard()
	var ids []slot.ID
	for i := range s.e.tenures {
		if t := s.e.tenures[i].Load(); t != nil && (t.lapses != guard.lapses || t.reconnects != guard.reconnects) {
			ids = append(ids, slot.ID(i))
		}
	}
	if len(ids) == 0 || s.e.lease.remaining() <= 0 {
		return // nothing to prove, or nothing to stand on yet
	}
	results := make([]outcome, len(ids))
	each(ids, func(i int, id slot.ID) { results[i] = s.e.tryConfirm(ctx, id, s.e.tenures[id].Load().entry) })
	confirmed := 0
	for i, id := range ids {
		r := results[i]
		count(s.e.counts.doubts, "result", result(r.err))
		if r.entry.Term > 0 {
			s.learn(id, r.entry)
		}
		switch {
		case r.err == nil:
			t := guard
			t.entry = r.entry
			s.hold(id, t, false)
			confirmed++
		case errors.Is(r.err, errTaken) && r.entry.Term > 0 && !r.entry.sameLeadership(s.e.tenures[id].Load().entry):
			s.drop(id, LossSuperseded)
		}
	}
	if confirmed > 0 {
		s.e.cfg.Log.Info("slots confirmed", "count", confirmed)
	}
}

// tryConfirm writes the record of a tenure once more, if it is still there (perhaps from an earlier
// confirmation whose result was never heard), or if the bucket was lost.
func (e *Engine) tryConfirm(ctx context.Context, id slot.ID, held Entry) outcome {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	stored, v, err := e.read(ctx, id)
	if err != nil {
		return outcome{err: err}
	}
	if v.live && !stored.sameLeadership(held) {
		return outcome{stored, errTaken}
	}
	return e.write(ctx, id, held, v.seq)
}

// give hands slots over, one after the other, each to whom the wish names.
func (s *steward) give(ctx context.Context, ids []slot.ID) {
	for _, id := range ids {
		t := s.e.tenures[id].Load()
		if t == nil || !s.e.certain(t) {
			continue
		}
		to := s.view.wish[id]
		if r, ok := s.e.handler.(Releaser); ok {
			bound, cancel := context.WithTimeout(ctx, s.e.cfg.ReleaseTimeout)
			r.Releasing(bound, id, t.entry, to)
			cancel()
		}
		// From here on the node does not serve the slot, whatever comes of the write.
		released := *t
		released.entry.Leader, released.entry.ReleasedTo = Owner{}, to
		s.giving[id] = released
		s.e.pending.Store(int64(len(s.giving)))
		s.e.tenures[id].Store(nil)
		s.release(ctx, id)
		s.lost(id, LossReleased)
	}
	if len(ids) > 0 {
		s.e.cfg.Pulse()
	}
}

// finishReleases stores the releases that could not be stored before.
func (s *steward) finishReleases(ctx context.Context) {
	for id := range s.giving {
		if !time.Now().Before(s.retry[id]) {
			s.release(ctx, id)
		}
	}
}

// release stores one release. What it replaces is this life's own record, or the slot has moved on.
func (s *steward) release(ctx context.Context, id slot.ID) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	released := s.giving[id].entry
	held := released
	held.Leader, held.ReleasedTo = s.e.self, Owner{}
	r := s.e.write(ctx, id, released, released.Revision)
	if errors.Is(r.err, errTaken) && r.entry.sameLeadership(held) {
		r = s.e.write(ctx, id, released, r.entry.Revision)
	}
	if r.err != nil && !errors.Is(r.err, errTaken) {
		s.retry[id] = time.Now().Add(claimRetry)
		s.e.cfg.Log.Warn("release of a slot not stored yet", "slot_id", int(id), "error", r.err)
		return
	}
	if r.entry.Term > 0 {
		s.learn(id, r.entry)
	}
	delete(s.giving, id)
	s.e.pending.Store(int64(len(s.giving)))
}

// hold makes a tenure servable, after the handler is prepared for it.
func (s *steward) hold(id slot.ID, t tenure, fresh bool) {
	s.e.handler.Acquired(id, t.entry, fresh)
	s.e.tenures[id].Store(&t)
	msg := "slot acquired"
	if !fresh {
		msg = "slot confirmed"
	}
	s.e.cfg.Log.Debug(msg, "slot_id", int(id), "term", t.entry.Term)
}

// drop ends a tenure.
func (s *steward) drop(id slot.ID, why Loss) {
	s.e.tenures[id].Store(nil)
	s.lost(id, why)
}

func (s *steward) lost(id slot.ID, why Loss) {
	s.e.handler.Lost(id, why)
	count(s.e.counts.losses, "reason", string(why))
	s.e.cfg.Log.Info("slot lost", "slot_id", int(id), "reason", string(why))
}
