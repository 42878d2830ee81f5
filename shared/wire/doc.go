// Package wire turns the suite's values into what calls between services carry (wirepb), and
// back. All functions are pure.
package wire
