// Package services puts the suite into one process: the table of services, and Up, which runs all
// of them on an embedded NATS server.
//
// An all-in-one node is a cluster of one: every service has its own connections and its own life,
// and they talk over NATS as separate processes do, never by a shortcut in the process.
package services
