package directory

import (
	"errors"
	"fmt"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/slot"
)

// Failures. In each case the call has changed nothing, unless its comment says otherwise.
var (
	// ErrNotLeader: the slot is not open here.
	ErrNotLeader = errors.New("directory: slot is not led here")
	// ErrFenced: at or below the highest owner_seq with which the session was unregistered (I4),
	// or below that of its active route.
	ErrFenced = errors.New("directory: session is fenced")
	// ErrExpired: the candidate timed out, was aborted or was never here.
	ErrExpired = errors.New("directory: no such candidate")
	// ErrDuplicate: PolicyRejectNew and the user has a session. After Commit the candidate is gone.
	ErrDuplicate error = fault.ErrDuplicateSession
	// ErrUnavailable: cannot be decided now, try again: the slot is rebuilding, or the calling
	// owner is fenced as gone.
	ErrUnavailable error = fault.ErrUnavailable
	// ErrFull: a bound of Config is reached.
	ErrFull error = fault.New(fault.QueueFull, "presence directory is full")
	// ErrInvalid: the user or session does not belong to the target's hash slot, or a field
	// that is needed is empty.
	ErrInvalid error = fault.New(fault.InvalidRequest, "route does not fit its slot")
)

// StaleTarget is the refusal of a call with the wrong fence (I3). It redirects.
type StaleTarget struct {
	// Current is the leadership that this directory knows.
	Current slot.Target
}

func (e *StaleTarget) Error() string {
	return fmt.Sprintf("directory: stale target: slot %d is at term %d of epoch %d", e.Current.Hash, e.Current.Term, e.Current.ConfigEpoch)
}

// Conflict is the refusal of a commit while active routes stand in its way (I1). The candidate
// stays: have their owners close them, and commit again with them confirmed.
type Conflict struct {
	Routes []Route
}

func (e *Conflict) Error() string {
	return fmt.Sprintf("directory: %d conflicting routes are not confirmed", len(e.Routes))
}
