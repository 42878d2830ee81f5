// Package operator is the command line for people who run Switchyard: it asks the cluster over
// NATS what any backend could ask (PROTOCOL.md section 6), and prints a table, or with --json the
// reply as it came.
//
// Commands are made by Root; one Root runs one command line. Results go to stdout, errors to
// stderr with their protocol code; the exit code is 0, 1 for a failure, 2 for a wrong command
// line.
package operator
