// Package gateway is the service that holds the real sockets: it lets clients in, keeps the
// owner-local registry of their sessions, and writes what is pushed to them (DESIGN.md sections
// 3 and 4).
//
//	transport   sockets, frames in and out            session     the client protocol
//	registry    who is here, exactly                  activation  from a ticket to a known session
//	presence    the calls to the slots' leaders       owner       pushes and actions for this process life
//	keyring     the keys that tickets are signed with
//
// Gateway implements lifecycle.Service and wires those together; it has no rules of its own but
// for the order of starting, draining and stopping. It is safe for concurrent use.
package gateway
