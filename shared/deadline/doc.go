// Package deadline is how a service treats the deadlines of the requests that reach it.
//
// A request carries the instant at which its sender gives up, in unix milliseconds by the sender's
// clock, and a receiver drops what is later: nobody waits for the answer any more. The two clocks
// are not the same, so every such check allows for Skew: without that, a sender whose clock is a
// second behind would have each of its calls dropped in silence.
//
// What is fenced against late requests must outlast them by as much. A sender gives a request at
// most 10 s, its clock may be ahead by Skew, and Skew more is allowed here: nothing is served later
// than 20 s after it was sent, a third of what the authority keeps its tombstones for (60 s).
//
// All functions are safe for concurrent use.
package deadline
