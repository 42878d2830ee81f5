// Package registry is the owner-local registry of a gateway: every session that this process
// life holds, pending or active, and nothing else (DESIGN.md section 1). The authority's routes
// only say where a session was; here it is decided whether it still is (I2).
//
//	Begin        -> pending     known here, addressable by nobody
//	MarkCommitting -> committing  its route may be visible: pushes to it are exact already
//	MarkActive   -> active      announced to the client; touched, restored
//	Remove       -> gone        final; yields the tombstone to unregister
//
// An entry moves through these once and never back. Sessions are kept in one shard a hash slot,
// each with its own mutex, so that a slot's sessions can be restored together. No method calls
// out while it holds a shard, and none blocks. A Registry is safe for concurrent use.
package registry
