// Package natstest gives tests their NATS: a server or a cluster in the process, connections, and
// conditions to wait for. All of it ends with the test.
package natstest
