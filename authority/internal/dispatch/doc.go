// Package dispatch brings requests for many users to the leaders of their hash slots, from whatever
// node heard them.
//
//	users, sessions -> by hash slot -> one snapshot of the slot table -> by leader -> one call each
//
// A leader answers hash slot by hash slot: one stale group does not harm its siblings, and is tried
// again alone, against the table as it then is or the target that the answer named. What was sent is
// never sent again: only a group that certainly changed nothing (stale, not led, nobody there) is
// repeated. Groups whose slot has no leader wait for one, bounded; then their users are unknown,
// never offline (I7).
//
// A push to named groups goes to the gateways that have members at once, and every live gateway
// then says what became of it.
//
// All methods are safe for concurrent use; each blocks until its deadline at the latest,
// or until its context ends.
package dispatch
