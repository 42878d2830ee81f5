// Package authority is the presence authority: for the hash slots that a node leads it knows where
// every user's sessions are, and delivers to them (DESIGN.md sections 2-4).
//
//	rpc        calls of gateways and of other leaders: register, commit, touch, restore, batches
//	outside    what backends call: push, presence, kick, groups, slots, nodes
//	leader     the fence, the order of pushes, and what follows from the directory's effects
//	directory  the pure rules: routes, candidates, tombstones, expiry
//	delivery   links to the gateways that own the sessions
//	dispatch   requests for many users, brought to the leaders of their slots
//
// User events go to JetStream by way of shared/events.
//
// The authority holds virtual routes only, and can lose them all: gateways restore what they hold
// in each new term. Authority is a lifecycle.Service; everything exported is safe for concurrent use.
package authority
