// Package api is the JSON that backends and operators exchange with Switchyard over NATS
// (PROTOCOL.md section 6): requests with their bounds, replies, and events.
//
// Requests are read with Decode, which refuses what the protocol does not name, and then checked
// with their Validate; both fail with a *fault.Error of code INVALID_REQUEST or TOO_LARGE whose
// message names the field. Replies and events are read with plain encoding/json: a reader ignores
// fields that it does not know. All values are plain data: safe to share while nobody writes.
package api
