package frame

import (
	"strings"
	"testing"
)

var benchPayload = []byte(`{"text":"` + strings.Repeat("x", 240) + `"}`)

func BenchmarkDecode(b *testing.B) {
	for _, c := range []Codec{JSON, ELR2} {
		msg := c.Append(nil, Frame{Kind: KindRequest, Route: 200, ID: 123456, Seq: 7, Payload: benchPayload})
		b.Run(c.Name(), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(msg)))
			for b.Loop() {
				if _, err := c.Decode(msg); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, c := range []Codec{JSON, ELR2} {
		b.Run(c.Name(), func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, 0, 1024)
			for b.Loop() {
				buf = c.Append(buf[:0], Frame{Kind: KindResponse, Route: 200, ID: 123456, Seq: 7, Payload: benchPayload})
			}
		})
	}
}

func BenchmarkPreparedHead(b *testing.B) {
	for _, c := range []Codec{JSON, ELR2} {
		p := Prepare(c, 200, benchPayload, false, true)
		b.Run(c.Name(), func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, 0, 1024)
			var seq uint32
			for b.Loop() {
				seq++
				buf = p.AppendHead(buf[:0], seq)
			}
		})
	}
}

func BenchmarkPrepare(b *testing.B) {
	for _, c := range []Codec{JSON, ELR2} {
		b.Run(c.Name(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Prepare(c, 200, benchPayload, false, true)
			}
		})
	}
}
