// Package subject names everything that Switchyard has on NATS: subjects, streams, buckets,
// queue groups and headers. It is the only place where a subject is put together or taken apart.
//
// Layout (all under "sy.v1"):
//
//	slot.<hash>.<op>                     one user's calls; only the slot's leader subscribes
//	slot.<hash>.user.<op>.<rgn>.<rlm>.<usr>  the same, as mapped by the NATS server from
//	user.<rgn>.<rlm>.<usr>.<op>          the per-user subject that backends use
//	authority.<node>.<boot>.<op>         batches grouped by leader
//	owner.<gateway>.<boot>.<op>          pushes and actions for one life of one gateway
//	group.<name>.push                    fan-out to the gateways that have members
//	gateways.<op>                        every gateway
//	beacon.<service>.<node>.<boot>       liveness, published
//	node.<service>.<node>.<boot>.probe   liveness, asked
//	table.slots.<id>                     the slot bucket's changes, republished
//	ticketing.<op>                       ticketing's calls for the other services
//	event.<kind>.<what>.<rgn>.<rlm>      stream SY_EVENTS
//	push, presence, kick, ...            the outside (PROTOCOL.md section 6)
//
// A node, gateway or boot in a subject is a valid identity.ValidNode token. All functions are
// pure and safe for concurrent use.
package subject
