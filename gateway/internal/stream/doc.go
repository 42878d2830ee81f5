// Package stream turns the bytes that come over a raw socket into whole messages, for servers and
// clients that hold very many mostly idle connections.
//
// A Reader parks its goroutine on the readability of the socket and takes a pooled buffer only
// when bytes are there, so an idle connection costs its goroutine's stack and some two hundred
// bytes. A Parser cuts the bytes in messages: WebSocket (RFC 6455, the rules for frame headers are
// gobwas/ws's) or ELR2 frames over plain TCP. A message that lies whole in a buffer is handed on
// from there; any other is put together in memory that grows with what arrives, never with what a
// header promises.
//
// A Reader, its Parser and its Sink belong to one goroutine.
package stream
