// Package keyring holds ticketing's public keys at the gateway, so that tickets are verified
// without a call (DESIGN.md section 3): fetched at the start, again every few seconds, and at once,
// rate limited, when a ticket names a key that is not known.
//
// With ticketing away the keys that are known go on serving. A Keyring is safe for concurrent use.
package keyring
