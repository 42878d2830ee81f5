// Package leadership decides which node leads which logical slot, and tells everybody
// (DESIGN.md section 2).
//
//	Setup    makes the buckets, and agrees on the slot layout
//	Table    what every service knows of all slots: leader, term, config epoch
//	Engine   what a leading service runs: lease, claims, fencing, release
//	Plan     the wish: which node should lead which slot
//
// Each slot has one record in KV, written only by compare-and-set; its term only grows. A node
// that wants a slot which is free, or whose leader is gone, writes term + 1: of several that try,
// one succeeds. Safety rests on the term, never on clocks. Clocks only make a leader refuse early:
// it serves while its node lease is younger than its TTL by its own monotonic clock, its
// connection has answered a ping a moment ago and has not reconnected since its leadership was
// last confirmed. Otherwise it is uncertain: it refuses, and goes on with the same term if a
// compare-and-set of its own records shows that nobody took them.
//
// The table is fed three ways, highest (config epoch, term) wins: the bucket's republished
// changes, the claims in leaders' beacons, and a listing on every gap, reconnect and 5 s.
//
// Everything exported is safe for concurrent use.
package leadership
