package authority

import (
	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/events"
)

// maxEventCalls bounds the user events that wait for their acknowledgement or their next try.
const maxEventCalls = 1024

// userEvents tells the event stream what becomes of users. It never holds up the directory.
type userEvents struct{ *events.Publisher }

// User tells that a user went from no session to some, or back.
func (e userEvents) User(t directory.Transition) {
	what := api.WhatOffline
	if t.Online {
		what = api.WhatOnline
	}
	e.Publish(&api.UserEvent{
		Type: api.EventType(api.KindUser, what), UID: t.UID, At: api.AtMS(t.At), Slot: t.Hash, Term: t.Term, N: t.N,
	})
}
