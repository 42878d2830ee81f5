// Package directory is the presence directory of an authority node: for each hash slot that the
// node leads, which sessions each user has, on which gateway and in which of its lives
// (DESIGN.md sections 1-3).
//
// It holds virtual routes only, never a socket: a view that can be thrown away and rebuilt from
// the gateways. It is pure: it starts no goroutine, does no I/O and reads no clock. Calls carry
// the time, and what the outside must do about a change is appended to the caller's Effects.
//
// Life of a slot: closed -> Open (rebuilding until every awaited owner has reported or is gone)
// -> serving -> Close. While rebuilding, a user without a route is "unknown", never offline (I7).
//
// Life of a session: Register makes a pending candidate that nobody sees and names the routes in
// its way; Commit puts it in their place once their owners confirmed; Touch keeps it; Unregister
// removes it and leaves a tombstone, so that nothing late brings it back (I4, I13). A route that
// was not touched for the TTL expires; its owner, if it still lives, restores it.
//
// A session that is replaced, or whose place is taken while its owner is silent, may have a socket
// still, and its owner hands out higher sequences meanwhile. Such a session is remembered apart from
// tombstones and closed whenever its owner presents it (I1). Between two sessions that conflict the
// leader's own order of commits decides; gateways' clocks do only between two restored ones.
//
// Every call that names a slot.Target is fenced: a target that is not exactly the current
// leadership changes nothing (I3) and fails with a *StaleTarget or ErrNotLeader.
//
// Expiry runs on this node's own monotonic clock, counted from the moment when a sign of life
// arrived, so a gateway with a wrong clock cannot make a connected user look offline (I7).
//
// All methods of Directory are safe for concurrent use; each hash slot has its own mutex and no
// two are held at once. Strings given in routes are kept, so they must not alias a reused buffer.
package directory
