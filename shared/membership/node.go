package membership

import (
	"time"

	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// Node is one process life as a Tracker knows it.
type Node struct {
	Service   string
	ID        string
	Boot      string
	State     string // a lifecycle state
	Version   string
	StartedAt time.Time
	Sessions  uint64 // active sessions, of a gateway
	Eligible  bool   // ready to lead slots
	// Silent is true while beacons are missing and the life is not yet declared gone.
	Silent bool
	// LastSeen is when the last beacon came, by the local clock.
	LastSeen time.Time
}

// EventKind says what happened to a life.
type EventKind uint8

// The events.
const (
	// Joined: heard for the first time, or again after Left.
	Joined EventKind = iota + 1
	// Left: declared gone, for Reason.
	Left
	// Beaconed: a beacon came; after Joined for the first one.
	Beaconed
)

// Reason says why a life is taken for gone.
type Reason string

// The reasons.
const (
	NoResponders Reason = "no_responders" // its process or its connection died
	Silent       Reason = "silent"        // neither beacon nor probe for the hang timeout
	Stopped      Reason = "stopped"       // it said so
)

// Event is a change of one life. Beacon is set for Joined and Beaconed; it is shared and must not
// be changed.
type Event struct {
	Kind   EventKind
	Node   Node
	Reason Reason
	Beacon *wirepb.Beacon
}

// Status is what a Tracker knows of a life.
type Status uint8

// The statuses.
const (
	// Unknown: never heard here. See Tracker.Suspect.
	Unknown Status = iota
	// Live: beacons come.
	Live
	// Quiet: beacons are missing, and it is not known why (it may hang, or the network does).
	Quiet
	// Gone: its process or connection died, or it stopped. Not proven for ever: it may come back.
	Gone
	// Hung: silent for the hang timeout, and its private subject is still subscribed to.
	Hung
)
