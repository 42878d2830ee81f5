// Package browser tests the demo page and the browser client in a real Chromium. It has the build
// tag "browser", because `go test work` must pass on a machine that has none: run it with
//
//	go test -tags browser ./services/e2e/browser
package browser
