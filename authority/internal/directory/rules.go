package directory

import (
	"bytes"

	"github.com/switchyard-io/switchyard/shared/identity"
)

// Policy says what a new session of a user does to the user's other sessions
// (PROTOCOL.md section 5, duplicate_login).
type Policy uint8

// The policies.
const (
	// PolicyDevice: within a device flag, a master replaces every session, a slave only one with
	// its own device id.
	PolicyDevice Policy = iota
	// PolicyAllowMultiple: sessions never conflict.
	PolicyAllowMultiple
	// PolicyRejectNew: a user with any live session gets no other.
	PolicyRejectNew
	// PolicyKickExisting: a new session replaces all.
	PolicyKickExisting
)

// replaces reports whether a new session on device newer ends a session of the same user on
// device older. It is not symmetric: an unnamed slave leaves a master alone.
func replaces(p Policy, newer, older identity.Device) bool {
	switch p {
	case PolicyKickExisting:
		return true
	case PolicyDevice:
		if newer.Flag != older.Flag {
			return false
		}
		return newer.Level == identity.LevelMaster || newer.ID != "" && newer.ID == older.ID
	default:
		return false
	}
}

// standsFor reports whether a session that was let in on device newer has taken the place of an
// earlier one on device older. Where a second session is refused, one that was let in after all,
// because the first had gone with its owner, stands for every other: both must not live (I1).
func standsFor(p Policy, newer, older identity.Device) bool {
	return p == PolicyRejectNew || replaces(p, newer, older)
}

// mayReplace reports whether a session on device d could ever replace or be refused because of
// another: if so, it must not be let in while some owner's sessions are still unknown (I1).
func mayReplace(p Policy, d identity.Device) bool {
	switch p {
	case PolicyKickExisting, PolicyRejectNew:
		return true
	case PolicyDevice:
		return d.Level == identity.LevelMaster || d.ID != ""
	default:
		return false
	}
}

// later orders two sessions by the time they connected, and by id where that is equal, so that
// every node finds the same winner whatever it hears first.
func later(aConnected int64, a identity.SessionID, bConnected int64, b identity.SessionID) bool {
	if aConnected != bConnected {
		return aConnected > bConnected
	}
	return bytes.Compare(a[:], b[:]) > 0
}
