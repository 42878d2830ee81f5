// Package e2e tests the suite from outside, as PROTOCOL.md describes it: real processes, real
// sockets, no code shared with what is tested. The same cases run against the all-in-one process
// and against separate processes on a NATS cluster of three servers.
package e2e
