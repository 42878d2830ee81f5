// Package presence is the gateway's side of the presence authority: it makes the calls to the
// leaders of hash slots and keeps them told what this gateway holds (DESIGN.md sections 2, 3).
//
//	Register, Commit, Abort    one session's activation, each aimed at an exact target
//	Evict                      asks other owners to close what stands in a candidate's way
//	Unregister                 queued, retried until a leader has it or fences it (I4)
//	touch worker               drains the registry's dirty sessions in batches by leader
//	restore worker             tells each new term all that this gateway holds (I7)
//
// A call that meets a stale target follows to the leader that the answer or the slot table names,
// within its deadline and a bounded number of attempts. Nothing here decides whether a session
// lives: that is the registry's business, and presence only reads it.
//
// A Client is safe for concurrent use.
package presence
