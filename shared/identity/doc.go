// Package identity holds who and what connects: accounts and users, devices, sessions and
// nodes, with their written forms and limits (PROTOCOL.md section 1).
//
// Everything here is a value: safe to copy and to use from several goroutines.
package identity
