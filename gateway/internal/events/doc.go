// Package events publishes what becomes of a gateway's sessions in the JetStream stream SY_EVENTS
// (PROTOCOL.md section 6): at least once, and without ever holding up a session.
//
//	Authenticated, Closed -> queue (bounded) -> publish (bounded in flight) -> acknowledgement
//
// A publish that is not acknowledged is repeated under the same Nats-Msg-Id, so that the stream
// keeps it once. What does not fit the queue, or is not acknowledged after the last try, is lost to
// the stream, and counted. A Publisher is safe for concurrent use.
package events
