// Package leader is what a node does for the hash slots that it leads: it guards the presence
// directory with the fence, delivers pushes and actions to the owners of routes, and turns the
// directory's effects into events, evictions and released pushes.
//
// A call is served only while the leadership engine says so at that moment, and only for exactly
// the target that it names (I3). Pushes of one hash slot keep their order (I11): lookup and queueing
// to owners happen under the slot's mutex, and while the slot rebuilds, its pushes wait in line
// (bounded in number and time), so that a failover delays them instead of losing them.
//
// Lock order: a slot's mutex here, then the directory's and the links' own. Nothing calls back in
// here while holding those. All methods are safe for concurrent use.
package leader
