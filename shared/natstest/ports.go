package natstest

import (
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
)

// Ports are given out from below the range that systems take for outgoing connections (32768 and
// up on Linux, 49152 elsewhere), each once in a process, beginning at a place of the process's own: a
// port that was free a moment ago is then still free when a server binds it.
const (
	firstPort = 10_000
	portCount = 20_000
	portsEach = 37 // distance between the beginnings of two processes with neighbouring ids
)

var nextPort atomic.Int64

// FreeAddrs returns n loopback addresses that nobody listens on, and that it returns only once.
func FreeAddrs(t testing.TB, n int) []string {
	t.Helper()
	out := make([]string, 0, n)
	for range portCount {
		port := firstPort + (int64(os.Getpid())*portsEach+nextPort.Add(1))%portCount
		addr := net.JoinHostPort("127.0.0.1", strconv.FormatInt(port, 10))
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if out = append(out, addr); len(out) == n {
			return out
		}
	}
	t.Fatalf("no %d free ports", n)
	return nil
}
