package transport

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gobwas/ws"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
)

// crowd is many bare client sockets, without any memory of this process but their descriptors, so
// that what is measured is the gateway's side alone.
type crowd []int

// gather connects n clients; two descriptors each, so 9,500 are what `ulimit -n` 20,000 allows.
func gather(b *testing.B, g *gate, n int) crowd {
	b.Helper()
	fds := make(crowd, 0, n)
	b.Cleanup(func() { fds.leave() })
	addr := g.Addr().(*net.TCPAddr)
	request := []byte("GET /v1/connect HTTP/1.1\r\nHost: " + addr.String() + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: switchyard.v1.json\r\n\r\n")
	buf := make([]byte, 1024)
	for len(fds) < n {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
		if err != nil {
			b.Fatalf("socket %d: %v", len(fds), err)
		}
		fds = append(fds, fd)
		if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: addr.Port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			b.Fatalf("connect %d: %v", len(fds), err)
		}
		if _, err := syscall.Write(fd, request); err != nil {
			b.Fatal(err)
		}
		if k, err := syscall.Read(fd, buf); err != nil || !strings.Contains(string(buf[:max(k, 0)]), " 101 ") {
			b.Fatalf("upgrade %d: %q, %v", len(fds), buf[:max(k, 0)], err)
		}
		if err := syscall.SetNonblock(fd, true); err != nil {
			b.Fatal(err)
		}
	}
	eventually(b, "all are there", func() bool { return g.Connections() == n && len(g.conns) == n })
	return fds
}

func (f crowd) leave() {
	for _, fd := range f {
		_ = syscall.Close(fd)
	}
}

// drain reads what has come.
func (f crowd) drain() {
	buf := make([]byte, 64<<10)
	for _, fd := range f {
		for {
			if n, err := syscall.Read(fd, buf); n <= 0 || errors.Is(err, syscall.EAGAIN) {
				break
			}
		}
	}
}

// quiet is an Events that does nothing, and costs nothing.
type quiet struct{}

func (quiet) Message(*Conn, []byte) {}
func (quiet) Active(*Conn)          {}
func (quiet) Closed(*Conn, Cause)   {}

func startWith(b *testing.B, events Events) *gate {
	var g *gate
	g = start(b, Config{}, func(h *Hooks) {
		h.Open = func(c *Conn) Events { g.conns <- c; return events }
	})
	return g
}

// resident is the process's resident memory and what Go has in use of heap and stacks, in bytes.
func resident(b *testing.B) (rss, inUse float64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
	if err != nil {
		b.Fatal(err)
	}
	return float64(pages * os.Getpagesize()), float64(m.HeapAlloc + m.StackInuse)
}

// hungry is an Events that answers, with a handler that needs some stack.
type hungry struct{ quiet }

func (hungry) Message(c *Conn, _ []byte) {
	deep(8)
	_ = c.Send([]byte(`{}`))
}

//go:noinline
func deep(n int) byte {
	var room [1024]byte
	if n > 0 {
		room[n] = deep(n - 1)
	}
	return room[n%3]
}

// BenchmarkIdleConnection reports what one idle WebSocket connection, which has sent one message,
// costs the gateway's process (the session above it apart). Run with -benchtime 1x.
func BenchmarkIdleConnection(b *testing.B) {
	const n = 9500
	for range b.N {
		g := startWith(b, hungry{})
		rss, inUse := resident(b)
		fds := gather(b, g, n)
		msg := masked(ws.OpText, true, `{"route":2,"id":1}`)
		for _, fd := range fds {
			if _, err := syscall.Write(fd, msg); err != nil {
				b.Fatal(err)
			}
		}
		eventually(b, "all are answered", func() bool { return g.Stats().MessagesOut == n })
		afterRSS, afterInUse := resident(b)
		b.ReportMetric((afterRSS-rss)/n, "rss-B/conn")
		b.ReportMetric((afterInUse-inUse)/n, "heap+stack-B/conn")
	}
}

// BenchmarkFanOut sends one prepared payload of 256 bytes to every connection, and waits until the
// last has been written to its socket.
func BenchmarkFanOut(b *testing.B) {
	for _, n := range []int{100, 9500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g := startWith(b, quiet{})
			fds := gather(b, g, n)
			conns := make([]*Conn, n)
			for i := range conns {
				conns[i] = <-g.conns
			}
			payload := []byte(`"` + strings.Repeat("x", 254) + `"`)
			var seq uint32
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				seq++
				p := frame.Prepare(frame.JSON, 200, payload, false, false)
				for _, c := range conns {
					if err := c.SendPrepared(p, seq); err != nil {
						b.Fatal(err)
					}
				}
				for g.Stats().MessagesOut < int64(seq)*int64(n) {
					runtime.Gosched()
				}
				b.StopTimer()
				fds.drain()
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/conn")
		})
	}
}

// BenchmarkEcho is one request and its answer over one connection, and over many at once.
func BenchmarkEcho(b *testing.B) {
	g := start(b, Config{})
	g.rec.echo = true
	msg := masked(ws.OpText, true, strings.Repeat("x", 256))
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			var wg sync.WaitGroup
			for range n {
				p, _ := g.dial(b, frame.JSON)
				wg.Go(func() {
					for range b.N/n + 1 {
						if _, err := p.Write(msg); err != nil {
							b.Error(err)
							return
						}
						if _, _, err := p.tryRead(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
