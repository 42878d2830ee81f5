package leader

import (
	"time"

	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
)

// Lookup appends one entry for each user and then for each session, with their routes. The fence
// is checked after the directory was read: an answer never comes from a directory that was lost.
func (l *Leader) Lookup(t slot.Target, users []identity.UID, sessions []identity.SessionID, into *directory.Found) error {
	if err := l.dir.Lookup(t, users, into); err != nil {
		return err
	}
	if err := l.dir.LookupSessions(t, sessions, into); err != nil {
		return err
	}
	return l.Check(t)
}

// Register opens a candidate; see directory.Register.
func (l *Leader) Register(t slot.Target, r directory.Route, p directory.Policy, now time.Time) (directory.Registration, error) {
	if err := l.Check(t); err != nil {
		return directory.Registration{}, err
	}
	return l.dir.Register(t, r, p, now)
}

// Commit makes a candidate visible; see directory.Commit.
func (l *Leader) Commit(t slot.Target, candidate uint64, session identity.SessionID, confirmed []identity.SessionID, now time.Time) error {
	err := l.Check(t)
	if err == nil {
		l.effect(func(fx *directory.Effects) { err = l.dir.Commit(t, candidate, session, confirmed, now, fx) })
	}
	return err
}

// Abort forgets a candidate.
func (l *Leader) Abort(t slot.Target, candidate uint64) error {
	if err := l.Check(t); err != nil {
		return err
	}
	return l.dir.Abort(t, candidate)
}

// Touch takes signs of life; see directory.Touch.
func (l *Leader) Touch(t slot.Target, o directory.Owner, live []directory.SessionSeq, now time.Time) (missing []identity.SessionID, err error) {
	if err := l.Check(t); err != nil {
		return nil, err
	}
	return l.dir.Touch(t, o, live, now, nil)
}

// Unregister removes sessions of an owner; see directory.Unregister.
func (l *Leader) Unregister(t slot.Target, o directory.Owner, gone []directory.SessionSeq, now time.Time) error {
	err := l.Check(t)
	if err == nil {
		l.effect(func(fx *directory.Effects) { err = l.dir.Unregister(t, o, gone, now, fx) })
	}
	return err
}

// Restore takes live sessions of an owner back; see directory.Restore.
func (l *Leader) Restore(t slot.Target, o directory.Owner, routes []directory.Route, complete bool, now time.Time) (closing []identity.SessionID, err error) {
	if err := l.Check(t); err != nil {
		return nil, err
	}
	l.effect(func(fx *directory.Effects) { closing, err = l.dir.Restore(t, o, routes, complete, now, fx, nil) })
	return closing, err
}
