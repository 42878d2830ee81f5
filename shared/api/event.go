package api

import (
	"strconv"
	"strings"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
)

// The event kinds and what happened, as they stand in the event subjects.
const (
	KindUser    = "user"
	KindSession = "session"

	WhatOnline        = "online"
	WhatOffline       = "offline"
	WhatAuthenticated = "authenticated"
	WhatClosed        = "closed"
)

// UserEvent tells that a user went from no session to some, or back. A reader drops what is not
// newer by (Term, N) than what it has for the slot.
type UserEvent struct {
	Type string       `json:"type"` // user.online or user.offline
	UID  identity.UID `json:"uid"`
	At   Time         `json:"at"`
	Slot slot.Hash    `json:"slot"`
	Term uint64       `json:"term"`
	N    uint64       `json:"n"`
}

// SessionEvent tells that a session began or ended at its gateway. N grows per boot.
type SessionEvent struct {
	Type      string             `json:"type"` // session.authenticated or session.closed
	UID       identity.UID       `json:"uid"`
	At        Time               `json:"at"`
	SessionID identity.SessionID `json:"session_id"`
	GatewayID string             `json:"gateway_id"`
	BootID    string             `json:"boot_id"`
	N         uint64             `json:"n"`
	Code      fault.CloseCode    `json:"code,omitempty"`
	Reason    string             `json:"reason,omitempty"`
}

// Subject is where the event is published.
func (e *UserEvent) Subject() string { return eventSubject(e.Type, e.UID) }

// MessageID names the change, whoever publishes it.
func (e *UserEvent) MessageID() string {
	return "u." + strconv.Itoa(int(e.Slot)) + "." + strconv.FormatUint(e.Term, 10) + "." + strconv.FormatUint(e.N, 10)
}

// Subject is where the event is published.
func (e *SessionEvent) Subject() string { return eventSubject(e.Type, e.UID) }

// MessageID names the event.
func (e *SessionEvent) MessageID() string {
	return "s." + e.BootID + "." + strconv.FormatUint(e.N, 10)
}

func eventSubject(typ string, u identity.UID) string {
	kind, what, _ := strings.Cut(typ, ".")
	region, realm, _ := u.Split()
	return subject.Event(kind, what, region, realm)
}

// EventType joins a kind and what happened: "user.online".
func EventType(kind, what string) string { return kind + "." + what }
