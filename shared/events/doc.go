// Package events publishes what happens to users and sessions in the JetStream stream SY_EVENTS
// (PROTOCOL.md section 6): at least once, and without ever holding up whoever has an event.
//
//	Publish -> queue (bounded) -> publish (bounded in flight) -> acknowledgement
//	                                  ^ pause, while young enough <- refused, or no answer
//
// An event that is not acknowledged is published again under the same Nats-Msg-Id, so that the
// stream keeps it once, for as long as a JetStream election takes and well longer, but never so
// long that the stream has forgotten the id. It may then come behind later ones; readers tell by its
// n. What does not fit the queue, or gets too old, is lost to the stream, and counted.
//
// A Publisher is safe for concurrent use.
package events
