// Package bench is the load generator behind `switchyard bench`: every figure of BENCHMARKS.md
// comes from it.
//
// A run has a fleet of client sessions and, depending on the scenario, a sender that plays a
// backend. The fleet is spread over worker processes (the same binary, started anew), because one
// process may not have descriptors for all of it; the coordinator talks to its workers in JSON
// lines over their standard input and output.
//
// Latency is counted from the moment a push was due, not from when it was sent: a sender that
// falls behind shows its lateness as latency instead of hiding it (coordinated omission). Clocks
// are those of one machine.
//
// Everything is bounded: sessions, rate, duration, requests in flight.
package bench
