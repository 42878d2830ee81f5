// Package slot maps users to hash slots and hash slots to logical slots, and defines the fence
// that guards every call to a slot's leader (DESIGN.md section 2).
//
// 256 hash slots are fixed for a cluster's life. They are grouped in logical slots, the unit in
// which leadership moves. Everything here is a value and safe for concurrent use.
package slot
