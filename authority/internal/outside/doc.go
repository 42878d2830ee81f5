// Package outside is what backends see of the authority (PROTOCOL.md section 6): the JSON requests
// on sy.v1.push, presence, kick, group.join, group.leave, slots, nodes, and the per-user subjects.
//
// Requests for many users are spread by a dispatch.Dispatcher; at most MaxRequests run at a time,
// and more are refused as QUEUE_FULL. The per-user subjects are served where the user's slot is led,
// without a goroutine for each: the server maps them to the slot's subject, and where it does not,
// every node hears them and only the leader answers.
//
// A request without a reply subject is served too.
package outside
