// Package web holds the browser client and the demo page of a gateway.
//
// static/switchyard.js is the client: one ES module without dependencies, to be copied or served.
// Handler serves the demo: the page, and a small API that lets it do what a backend does over
// NATS, for users of region "demo", realm "demo" and nobody else. It is meant for a person who
// tries the suite on their own machine; it has no login, so an operator never mounts it in front
// of real users.
//
// The handler is safe for concurrent use.
package web
