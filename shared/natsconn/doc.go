// Package natsconn opens and watches the NATS connections of a service, and carries its calls.
//
// A service life has two connections (Conns): Control for what must never queue behind bulk data
// (leases, beacons, fences), Data for everything else. Both reconnect for ever, with jitter; lame
// duck servers, slow consumers and asynchronous errors are logged and counted.
//
// Request is the plain synchronous call. Caller multiplexes many asynchronous calls over one
// inbox with one goroutine, keeps the order of its calls on the wire, and bounds what waits (I12).
// JetStream helpers make buckets and streams with the right number of replicas, and wait out a
// JetStream that has no leader yet.
//
// Everything exported is safe for concurrent use.
package natsconn
