// Package embedded runs a NATS server with JetStream inside a process: for the all-in-one, and for
// tests. It has the subject mappings of the suite, and pings its clients every 3 s and cuts them
// after two misses, so that a hung process stops swallowing requests (DESIGN.md section 2).
package embedded
