// Package frame turns messages of a client connection into frames and back, in the two forms of
// PROTOCOL.md section 2:
//
//	JSON   {"kind":"request","route":R,"id":N,"seq":N,"payload":any | "payload_b64":"..."}
//	ELR2   | magic u32 | version u16 | kind u8 | flags u8 | route u32 | id u64 | seq u32 | length u32 | payload
//
// A message that is no frame at all is ErrNotFrame: the connection ends with 4500. A frame that
// is well formed but wrong is a *fault.Error, and the frame returned with it carries whatever
// route, id and seq could be read, so that the error can be answered.
//
// A push for many sessions is encoded once for each codec (Prepare); a session only adds its
// sequence number.
//
// There is no I/O here. Codecs and Prepared pushes are immutable and safe for concurrent use.
package frame
