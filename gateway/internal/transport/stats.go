package transport

import "sync/atomic"

// Stats counts since the Listener was made; Connections is the number now.
type Stats struct {
	Connections   int64
	Accepted      int64
	Refused       int64 // by origin, subprotocol, cap or hook, or for a bad upgrade request
	MessagesIn    int64
	MessagesOut   int64 // control frames included
	BytesIn       int64 // WebSocket framing included
	BytesOut      int64
	Overflows     int64 // cut with 4001: queue full
	WriteTimeouts int64 // cut with 4001: no progress
	Violations    int64 // cut with 4500: broken WebSocket or ELR2 stream
	TooBig        int64 // cut with 4506
}

type counters struct {
	accepted, refused        atomic.Int64
	messagesIn, messagesOut  atomic.Int64
	bytesIn, bytesOut        atomic.Int64
	overflows, writeTimeouts atomic.Int64
	violations, tooBig       atomic.Int64
}

// Stats is a snapshot of the counters, for the observable instruments of a gateway.
func (l *Listener) Stats() Stats {
	s := &l.stats
	return Stats{
		Connections: int64(l.Connections()),
		Accepted:    s.accepted.Load(), Refused: s.refused.Load(),
		MessagesIn: s.messagesIn.Load(), MessagesOut: s.messagesOut.Load(),
		BytesIn: s.bytesIn.Load(), BytesOut: s.bytesOut.Load(),
		Overflows: s.overflows.Load(), WriteTimeouts: s.writeTimeouts.Load(),
		Violations: s.violations.Load(), TooBig: s.tooBig.Load(),
	}
}
