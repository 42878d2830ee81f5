// Package activation turns a ticket into a session that the whole suite knows (DESIGN.md section 3):
//
//	verify the ticket locally      signature, times, parties          refusals that cost nobody anything
//	-> pending                     known in the registry              undo: remove
//	-> register                    a candidate at the slot's leader   undo: abort
//	-> redeem                      the ticket is used, once (I5)      undo: release
//	-> evict                       conflicting sessions are closed    none: they are closed
//	-> commit                      the route is visible               undo: unregister
//	-> active -> announce          the client has its answer          (I1)
//
// Each step undoes itself, and whatever fails undoes the steps before it. A used ticket fails
// before anybody is evicted. The answer is the last step: old owners have confirmed by then, are
// dead, or are fenced, and the newest leader knows the session.
//
// An Activation is safe for concurrent use. It has no goroutine of its own but for the releases, which
// may outlast their attempts; Stop waits for them.
package activation
