//go:build !linux

package client

import "syscall"

// bindLate has no counterpart outside of Linux.
func bindLate(_, _ string, _ syscall.RawConn) error { return nil }
