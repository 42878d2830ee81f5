// Package owner is where pushes and actions for this life of this gateway arrive
// (DESIGN.md section 4). Each names exact sessions; what is not exactly here is answered as
// stale or gone and touches nobody (I2).
//
//	owner.<gateway>.<boot>.push    batches of pushes, answered address by address, acknowledgements later
//	owner.<gateway>.<boot>.action  replace, kick, force logout, group join and leave; a close is
//	                               confirmed once the session can receive nothing any more (I1)
//	group.<name>.push              while the group has members here
//	gateways.group_sync            "what came of the group push before this?"
//
// Pushes are handled one after the other in the order of arrival (I11); so are group pushes and
// syncs, which share one goroutine. A payload is encoded once per codec, whoever receives it.
//
// Owner and Groups are safe for concurrent use.
package owner
