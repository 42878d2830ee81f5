// Package worldrouter is the service that knows which Worlds live and which shard each of them
// owns (DESIGN.md section 5).
//
// So far it has its life only: it connects, is visible to `nats micro ls` and in sy.v1.nodes, tells
// its health, drains and stops. It answers no subject of its own yet.
package worldrouter
