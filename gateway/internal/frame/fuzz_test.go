package frame

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"github.com/switchyard-io/switchyard/shared/fault"
)

// fuzzCodec checks what holds for every input: no panic, one of the two kinds of error, and a
// frame that decoded is the same after another round.
func fuzzCodec(f *testing.F, c Codec) {
	f.Fuzz(func(t *testing.T, msg []byte) {
		before := bytes.Clone(msg)
		got, err := c.Decode(msg)
		if !bytes.Equal(before, msg) {
			t.Fatal("the message was changed")
		}
		if err != nil {
			var e *fault.Error
			if !errors.Is(err, ErrNotFrame) && !errors.As(err, &e) {
				t.Fatalf("an error of another kind: %v", err)
			}
			if e != nil { // it can be answered
				if _, err := c.DecodeReply(c.AppendError(nil, got, e)); err != nil {
					t.Fatalf("the error frame for %q cannot be read: %v", msg, err)
				}
			}
			return
		}
		again, err := c.Decode(c.Append(nil, got))
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("%q: got %+v, then %+v, %v", msg, got, again, err)
		}
		if reply, err := c.DecodeReply(msg); err != nil || !reflect.DeepEqual(reply, got) {
			t.Fatalf("%q: the lenient reader sees %+v, %v", msg, reply, err)
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{"route":1,"id":1,"payload":{"ticket":"t"}}`, `{"kind":"push","route":100,"seq":3,"ack":true,"payload":1}`,
		`{"route":100,"id":1,"payload_b64":"AP8="}`, `{"r\u006fute":100,"id":1,"payload":"\\\""}`, `{}`, `[`, `{"a":{"b":[]}}`,
	} {
		f.Add([]byte(s))
	}
	fuzzCodec(f, JSON)
}

func FuzzELR2(f *testing.F) {
	b, _ := hex.DecodeString(golden)
	f.Add(b)
	f.Add(ELR2.Append(nil, Frame{Kind: KindPush, Route: 4}))
	fuzzCodec(f, ELR2)
}
