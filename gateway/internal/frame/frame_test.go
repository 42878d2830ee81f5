package frame

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard-io/switchyard/shared/fault"
)

func TestDecodeJSON(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want Frame
	}{
		{`{"route":1,"id":1,"payload":{"ticket":"t"}}`, Frame{Kind: KindRequest, Route: 1, ID: 1, Payload: []byte(`{"ticket":"t"}`)}},
		{" {\n\"kind\" : \"request\" , \"route\" : 200 , \"id\":9007199254740991, \"seq\":4294967295 , \"payload\" : [1, {\"a\":\"}\\\"]\"}] } ",
			Frame{Kind: KindRequest, Route: 200, ID: MaxID, Seq: 1<<32 - 1, Payload: []byte(`[1, {"a":"}\"]"}]`)}},
		{`{"kind":"response","route":2,"id":7}`, Frame{Kind: KindResponse, Route: 2, ID: 7}},
		{`{"route":100,"id":1,"payload":null}`, Frame{Kind: KindRequest, Route: 100, ID: 1, Payload: []byte(`null`)}},
		{`{"route":100,"id":1,"payload":-1.5e3}`, Frame{Kind: KindRequest, Route: 100, ID: 1, Payload: []byte(`-1.5e3`)}},
		{`{"route":100,"id":1,"payload":"é\u00e9"}`, Frame{Kind: KindRequest, Route: 100, ID: 1, Payload: []byte(`"é\u00e9"`)}},
		{`{"r\u006fute":100,"id":1}`, Frame{Kind: KindRequest, Route: 100, ID: 1}},
		{`{"route":100,"id":1,"payload_b64":"AP8="}`, Frame{Kind: KindRequest, Route: 100, ID: 1, Payload: []byte{0, 255}, Base64: true}},
		{`{"route":100,"id":1,"payload_b64":"\/\/\/\/"}`, Frame{Kind: KindRequest, Route: 100, ID: 1, Payload: []byte{255, 255, 255}, Base64: true}},
		{`{"route":100,"id":1,"payload_b64":""}`, Frame{Kind: KindRequest, Route: 100, ID: 1, Payload: []byte{}, Base64: true}},
		{`{"kind":"push","route":100,"seq":3,"ack":true,"payload":1}`, Frame{Kind: KindPush, Route: 100, Seq: 3, Ack: true, Payload: []byte(`1`)}},
	} {
		f, err := JSON.Decode([]byte(tc.in))
		if err != nil || !reflect.DeepEqual(f, tc.want) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", tc.in, f, err, tc.want)
		}
	}
}

func TestDecodeJSONRefusals(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want *fault.Error // nil: not a frame
	}{
		{``, nil}, {`null`, nil}, {`[]`, nil}, {`"x"`, nil}, {`{`, nil}, {`{"route":1}x`, nil}, {`{} {}`, nil},
		{"{\"route\":1,\"id\":1,\"payload\":\"\xff\"}", nil},
		{`{"route":01,"id":1}`, nil}, {`{'route':1}`, nil},
		{`{"extra":1,"route":100,"id":5,"seq":6}`, errUnknownField},
		{`{"Route":100,"route":100,"id":5,"seq":6}`, errUnknownField},
		{`{"route":100,"id":5,"seq":6,"route":100}`, errRepeated},
		{`{"route":100,"id":5,"seq":6,"kind":"shout"}`, errKind},
		{`{"route":100,"id":5,"seq":6,"kind":1}`, errKind},
		{`{"route":100,"id":5,"seq":6,"payload":1,"payload_b64":"AA=="}`, errTwoPayloads},
		{`{"route":100,"id":5,"seq":6,"payload_b64":"AA"}`, errBase64},
		{`{"route":100,"id":5,"seq":6,"payload_b64":"AB=="}`, errBase64},
		{`{"route":100,"id":5,"seq":6,"payload_b64":"_-_-"}`, errBase64},
		{`{"route":100,"id":5,"seq":6,"payload_b64":"AA\n=="}`, errBase64},
		{`{"route":100,"id":5,"seq":6,"payload_b64":7}`, errBase64},
		{`{"route":100,"id":5,"seq":6,"ack":true}`, errAck},
	} {
		f, err := JSON.Decode([]byte(tc.in))
		if tc.want == nil {
			if !errors.Is(err, ErrNotFrame) {
				t.Errorf("%s: got %v, want ErrNotFrame", tc.in, err)
			}
			continue
		}
		if err == nil || err.Error() != tc.want.Error() {
			t.Errorf("%s: got %v, want %v", tc.in, err, tc.want)
		}
		if f.Route != 100 || f.ID != 5 || f.Seq != 6 {
			t.Errorf("%s: the error cannot be answered: %+v", tc.in, f)
		}
	}
	for in, want := range map[string]*fault.Error{
		`{"id":1}`:                                errNoRoute,
		`{"route":0,"id":1}`:                      errNoRoute,
		`{"route":-1,"id":1}`:                     errNoRoute,
		`{"route":1.0,"id":1}`:                    errNoRoute,
		`{"route":"1","id":1}`:                    errNoRoute,
		`{"route":4294967296,"id":1}`:             errNoRoute,
		`{"route":100}`:                           errNoID,
		`{"route":100,"id":0}`:                    errNoID,
		`{"route":100,"id":9007199254740992}`:     errNoID,
		`{"route":100,"id":99999999999999999999}`: errNoID,
		`{"route":100,"id":null}`:                 errNoID,
		`{"route":100,"id":1,"seq":4294967296}`:   errSeq,
		`{"route":2,"id":1,"seq":1}`:              errSystemSeq,
		`{"kind":"push","route":100,"id":1}`:      errPushID,
		`{"kind":"push","route":100,"ack":1}`:     errAck,
	} {
		if _, err := JSON.Decode([]byte(in)); err == nil || err.Error() != want.Error() {
			t.Errorf("%s: got %v, want %v", in, err, want)
		}
	}
}

func TestReaderIgnoresUnknownFields(t *testing.T) {
	f, err := JSON.DecodeReply([]byte(`{"kind":"push","route":100,"seq":1,"later":{"a":[1]},"payload":2}`))
	if err != nil || f.Seq != 1 || string(f.Payload) != "2" {
		t.Fatalf("got %+v, %v", f, err)
	}
}

func TestAppendJSON(t *testing.T) {
	for want, f := range map[string]Frame{
		`{"kind":"response","route":2,"id":7}`:                                {Kind: KindResponse, Route: 2, ID: 7},
		`{"kind":"push","route":4,"seq":0,"payload":{}}`:                      {Kind: KindPush, Route: 4, Payload: []byte(`{}`)},
		`{"kind":"push","route":200,"seq":9,"ack":true,"payload_b64":"AP8="}`: {Kind: KindPush, Route: 200, Seq: 9, Ack: true, Base64: true, Payload: []byte{0, 255}},
		`{"kind":"response","route":200,"id":1,"seq":2,"payload":[1]}`:        {Kind: KindResponse, Route: 200, ID: 1, Seq: 2, Payload: []byte(`[1]`)},
	} {
		if got := string(JSON.Append(nil, f)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	got := JSON.AppendError(nil, Frame{Route: 200, ID: 3, Seq: 4}, fault.ErrUnavailable)
	want := `{"kind":"error","route":200,"id":3,"seq":4,"payload":{"code":"UNAVAILABLE","message":"temporarily unavailable","retryable":true}}`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The header of PROTOCOL.md section 2, byte by byte.
const golden = "454c5232" + "0002" + "01" + "00" + "000000c8" + "0102030405060708" + "0a0b0c0d" + "00000002" + "6869"

func TestELR2Header(t *testing.T) {
	want, _ := hex.DecodeString(golden)
	f := Frame{Kind: KindRequest, Route: 200, ID: 0x0102030405060708, Seq: 0x0a0b0c0d, Payload: []byte("hi")}
	if got := ELR2.Append(nil, f); !bytes.Equal(got, want) {
		t.Fatalf("got %x, want %x", got, want)
	}
	if got, err := ELR2.Decode(want); err != nil || !reflect.DeepEqual(got, f) {
		t.Fatalf("got %+v, %v", got, err)
	}
	for name, change := range map[string]func([]byte) []byte{
		"short":       func(b []byte) []byte { return b[:27] },
		"empty":       func(b []byte) []byte { return nil },
		"magic":       func(b []byte) []byte { b[0]++; return b },
		"version":     func(b []byte) []byte { b[5] = 1; return b },
		"kind 0":      func(b []byte) []byte { b[6] = 0; return b },
		"kind 5":      func(b []byte) []byte { b[6] = 5; return b },
		"flags":       func(b []byte) []byte { b[7] = 1; return b },
		"length less": func(b []byte) []byte { return b[:29] },
		"length more": func(b []byte) []byte { return append(b, 0) },
		"length huge": func(b []byte) []byte { b[24] = 0xff; return b },
	} {
		if _, err := ELR2.Decode(change(bytes.Clone(want))); !errors.Is(err, ErrNotFrame) {
			t.Errorf("%s: got %v, want ErrNotFrame", name, err)
		}
	}
	for _, tc := range []struct {
		frame Frame
		want  error
	}{
		{Frame{Kind: KindRequest, Route: 200}, errNoELR2ID},
		{Frame{Kind: KindRequest, ID: 1}, errNoRoute},
		{Frame{Kind: KindRequest, Route: 2, ID: 1, Seq: 1}, errSystemSeq},
		{Frame{Kind: KindPush, Route: 200, ID: 1}, errPushID},
	} {
		if f, err := ELR2.Decode(ELR2.Append(nil, tc.frame)); err == nil || err.Error() != tc.want.Error() || f.Route != tc.frame.Route || f.ID != tc.frame.ID {
			t.Errorf("%+v: got %+v, %v, want %v", tc.frame, f, err, tc.want)
		}
	}
}

func TestPreparedEqualsAppend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFrame(t)
		f.Kind, f.ID = KindPush, 0
		for _, c := range []Codec{JSON, ELR2} {
			p := Prepare(c, f.Route, f.Payload, f.Base64, f.Ack)
			got := append(p.AppendHead([]byte("x"), f.Seq), p.Tail()...)[1:]
			if want := c.Append(nil, f); !bytes.Equal(got, want) {
				t.Fatalf("%s: got %q, want %q", c, got, want)
			}
			if p.Size(f.Seq) != len(got) {
				t.Fatalf("%s: size %d, want %d", c, p.Size(f.Seq), len(got))
			}
		}
	})
}

func TestPreparedIsAlwaysUTF8(t *testing.T) {
	p := Prepare(JSON, 200, []byte("\"\xff\""), false, false)
	f, err := JSON.Decode(append(p.AppendHead(nil, 1), p.Tail()...))
	if err != nil || !f.Base64 || string(f.Payload) != "\"\xff\"" {
		t.Fatalf("got %+v, %v", f, err)
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFrame(t)
		for _, c := range []Codec{JSON, ELR2} {
			want := f
			if c == ELR2 {
				want.Base64, want.Ack = false, false
				if len(want.Payload) == 0 {
					want.Payload = nil
				}
			}
			got, err := c.Decode(c.Append(nil, f))
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: got %+v, %v, want %+v", c, got, err, want)
			}
		}
	})
}

// drawFrame makes a frame that is valid in both forms.
func drawFrame(t *rapid.T) Frame {
	f := Frame{
		Kind:  rapid.SampledFrom([]Kind{KindRequest, KindResponse, KindPush, KindError}).Draw(t, "kind"),
		Route: rapid.Uint32Min(1).Draw(t, "route"),
		Seq:   rapid.Uint32().Draw(t, "seq"),
	}
	if f.Kind == KindPush {
		f.Ack = rapid.Bool().Draw(t, "ack")
	} else {
		f.ID = rapid.Uint64Range(1, MaxID).Draw(t, "id")
	}
	if f.Kind == KindRequest && f.Route < FirstApplication {
		f.Seq = 0
	}
	switch rapid.IntRange(0, 2).Draw(t, "payload") {
	case 1:
		f.Payload, _ = json.Marshal(rapid.MapOf(rapid.String(), rapid.SliceOf(rapid.Int())).Draw(t, "json"))
	case 2:
		f.Payload, f.Base64 = rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"), true
	}
	return f
}

func TestIsJSON(t *testing.T) {
	for in, want := range map[string]bool{`{}`: true, ` 1 `: true, ``: false, `{`: false, "\"\xff\"": false} {
		if IsJSON([]byte(in)) != want {
			t.Errorf("%q: want %v", in, want)
		}
	}
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	msgs := map[Codec][]byte{}
	for _, c := range []Codec{JSON, ELR2} {
		msgs[c] = c.Append(nil, Frame{Kind: KindRequest, Route: 200, ID: 1, Payload: []byte(`{"a":"` + strings.Repeat("x", 200) + `"}`)})
	}
	for c, msg := range msgs {
		if n := testing.AllocsPerRun(100, func() { _, _ = c.Decode(msg) }); n != 0 {
			t.Errorf("%s: %v allocations for each frame", c, n)
		}
	}
}
