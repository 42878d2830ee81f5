// Package fault is the one error taxonomy: a code, its documented sentinel, and how it looks on
// the wire, over HTTP and as a WebSocket close (PROTOCOL.md section 2, "Errors", "Close codes").
//
// Make one with New or with a sentinel's After; test with errors.Is against a sentinel. Values are
// immutable and safe for concurrent use. Messages are seen by clients: they carry no internals.
package fault
