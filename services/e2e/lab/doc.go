// Package lab runs the suite as an operator does, for tests that look at it from outside: real
// binaries as real processes on real sockets, a NATS cluster of real servers with the
// configuration of deploy/nats, and clients that speak the protocol from its text alone (they
// share no code with what is tested).
//
// Every process belongs to the test that started it and ends with it; its output is printed when
// the test fails. A Client is for one goroutine unless a method says otherwise.
package lab
