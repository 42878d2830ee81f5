// Package ticketing is the service that admits: it signs tickets, and lets each of them
// authenticate once in the cluster (PROTOCOL.md sections 3 and 4).
//
//	POST /v1/tickets, sy.v1.ticket.issue      sign a login ticket for a given identity
//	GET /.well-known/jwks.json                the public keys
//	sy.v1.ticketing.redeem, .release, .keys   for gateways, as protobuf
//
// Instances hold no state of their own: keys and used tickets are in JetStream KV, requests are
// spread by a NATS queue group, so any number of them may run. Life: Start opens the keys and then
// subscribes; Drain only turns readiness off, because a draining gateway still resumes sessions
// and needs redeems; Stop takes no more requests, finishes those that run, and closes.
//
// A Ticketing is safe for concurrent use.
package ticketing
