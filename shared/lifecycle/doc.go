// Package lifecycle is the life of a service, from its main function to its last close.
//
//	Starting -> Ready <-> Draining -> Stopped
//
// Ready means that what the service promises holds: leases are held, subscriptions are there.
// Draining means: unready, release, finish, close, in that order, each acknowledged. Machine is
// that state machine, for services to embed; Service is what the rest of this package drives:
// Admin serves health, version, metrics and drain over HTTP; Run starts services, waits, drains and
// stops them; Main is the whole body of a cmd/<service>/main.go. Micro makes a service visible to
// `nats micro`.
//
// Everything exported is safe for concurrent use unless it says otherwise.
package lifecycle
