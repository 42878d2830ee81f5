// Package keys holds ticketing's signing keys: a ring of three in one KV record, so that every
// instance changes from one ring to the next in one step.
//
//	next      published, not used yet: gateways know it before the first ticket is signed with it
//	current   signs
//	previous  still verifies what it signed
//
// The record is made once, by compare and set, by whichever instance is first; every instance
// reads it again each RefreshInterval and takes a higher version. A Ring is immutable; a Store
// is safe for concurrent use.
package keys
