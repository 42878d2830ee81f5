package leader

import (
	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/subject"
)

// Trace returns the part of a request's header that is passed on to owners: its trace context,
// or nil without one.
func Trace(h nats.Header) nats.Header {
	parent := h[subject.HeaderTraceparent]
	if len(parent) == 0 {
		return nil
	}
	out := nats.Header{subject.HeaderTraceparent: parent}
	if state := h[subject.HeaderTracestate]; len(state) > 0 {
		out[subject.HeaderTracestate] = state
	}
	return out
}
