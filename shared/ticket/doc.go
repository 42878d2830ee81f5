// Package ticket is the admission ticket: a compact JWS, EdDSA over Ed25519, that proves an
// identity to a gateway (PROTOCOL.md section 3). Ticketing signs with a Signer, gateways and
// ticketing check with a Verifier; both agree on Claims.
//
// Verification is local and says nothing about use: that a ticket authenticates only once (I5)
// is ticketing's ledger's promise, keyed by Claims.ID. Every refusal wraps
// fault.ErrUnauthenticated, so that a client sees all of them alike; the Reason is for logs and
// metrics.
//
// Claims are values. Signer, KeySet and Verifier are immutable and safe for concurrent use.
package ticket
