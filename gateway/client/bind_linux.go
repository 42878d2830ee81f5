package client

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// bindLate leaves the choice of the local port to connect, which knows the remote side: a port is
// then unique for a pair of addresses and found at once. Without it, a process that dials many
// times from one address crawls when ports run short. Best effort: an old kernel dials all the same.
func bindLate(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	})
}
