package session_test

import (
	"testing"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/gateway/internal/owner"
	"github.com/switchyard-io/switchyard/gateway/internal/session"
)

// sink is a connection that swallows.
type sink struct{ fakeConn }

func (*sink) Send([]byte) error                          { return nil }
func (*sink) SendPrepared(*frame.Prepared, uint32) error { return nil }

func BenchmarkPushFanOut10k(b *testing.B) {
	h := newHarness(b, nil)
	sessions := make([]*session.Session, 10_000)
	for i := range sessions {
		sessions[i] = h.open(&sink{})
		sessions[i].Message([]byte(`{"id":1,"route":1,"payload":{"ticket":"t"}}`))
	}
	h.host.Stop() // waits for the activations
	b.ReportAllocs()
	for b.Loop() {
		m := &owner.Message{Route: 100, Payload: []byte(`{"text":"hello"}`)}
		for _, s := range sessions {
			if s.Push(m, nil) != owner.Queued {
				b.Fatal("not queued")
			}
		}
	}
	h.closeAll()
}

func BenchmarkHeartbeat(b *testing.B) {
	h := newHarness(b, func(c *session.Config) { c.RequestRate, c.RequestBurst = 1e9, 1e9 })
	s := h.open(&sink{})
	s.Message([]byte(`{"id":1,"route":1,"payload":{"ticket":"t"}}`))
	h.host.Stop()
	msg := []byte(`{"kind":"request","route":2,"id":7,"payload":{"last_seq":3}}`)
	b.ReportAllocs()
	for b.Loop() {
		s.Active()
		s.Message(msg)
	}
	h.closeAll()
}
