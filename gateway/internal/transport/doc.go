// Package transport holds the sockets of a gateway: WebSocket connections (over net/http and
// gobwas/ws) and raw TCP ones, as streams of whole messages. It knows nothing of sessions.
//
// What is cheap for an idle connection decides its shape. A connection has one goroutine, which
// parks on the readability of the raw socket, on a small fresh stack, and takes a pooled buffer
// only when bytes are there (package stream).
// Writing takes no goroutine of its own: a connection with something queued waits in line for one
// of a few writers, which never block; only a socket that is full gets a goroutine, until it has
// caught up or is cut.
//
//	Send ──► queue (bounded in bytes) ──► ready line ──► writer ──► socket
//	              └─ full: cut, 4001                        └─ socket full: own goroutine, deadline, 4001
//
// Life of a connection: open, then closing (nothing more is accepted; what was queued, the last
// messages and the close frame are still written, bounded in time), then closed. All methods of
// Conn and Listener are safe for concurrent use; callbacks of one connection never overlap.
//
// Lock order: Conn.mu, then Listener.mu or the ready line's. No callback runs under a lock.
package transport
