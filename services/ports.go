package services

import (
	"fmt"
	"net"
	"strconv"
)

// nextPort is the address whose port is n higher. Port 0 stays 0 (each takes a free one), and an
// empty address (the listener is off) stays empty.
func nextPort(addr string, n int) (string, error) {
	if addr == "" {
		return "", nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("%w: listener %q: %w", ErrConfig, addr, err)
	}
	p, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", fmt.Errorf("%w: listener %q: port", ErrConfig, addr)
	}
	if p != 0 {
		p += uint64(n)
	}
	if p > 65535 {
		return "", fmt.Errorf("%w: listener %q: no port left for gateway %d", ErrConfig, addr, n+1)
	}
	return net.JoinHostPort(host, strconv.FormatUint(p, 10)), nil
}
