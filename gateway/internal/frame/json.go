package frame

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/switchyard-io/switchyard/shared/fault"
)

// Errors of JSON frames that are well formed but wrong.
var (
	errUnknownField = fault.New(fault.InvalidRequest, "unknown field in the frame")
	errRepeated     = fault.New(fault.InvalidRequest, "repeated field in the frame")
	errKind         = fault.New(fault.InvalidRequest, "kind must be request, response, push or error")
	errSeq          = fault.New(fault.InvalidRequest, "seq must be an integer from 0 to 4294967295")
	errBase64       = fault.New(fault.InvalidRequest, "payload_b64 must be a string of standard base64 with padding")
	errTwoPayloads  = fault.New(fault.InvalidRequest, "payload and payload_b64 exclude each other")
	errAck          = fault.New(fault.InvalidRequest, "ack must be true or false, on a push")
)

// field is a bit for each name of a JSON frame, to notice repeated ones.
type field uint8

const (
	fieldKind field = 1 << iota
	fieldRoute
	fieldID
	fieldSeq
	fieldPayload
	fieldBase64
	fieldAck
)

// decodeJSON checks the whole text once with encoding/json, and then only has to cut it: the
// walk below relies on it being valid.
func decodeJSON(msg []byte, strict bool) (Frame, error) {
	text := bytes.Trim(msg, " \t\r\n")
	if len(text) == 0 || text[0] != '{' || !utf8.Valid(text) || !json.Valid(text) {
		return Frame{}, fmt.Errorf("%w: not a JSON object", ErrNotFrame)
	}
	p := parser{strict: strict, frame: Frame{Kind: KindRequest}}
	p.object(text)
	p.finish()
	if p.err != nil {
		return p.frame, p.err
	}
	return p.frame, nil
}

// parser collects the fields of one frame. It goes on after an error, so that route, id and seq
// are known whatever their place.
type parser struct {
	frame  Frame
	seen   field
	strict bool
	err    *fault.Error // the first
}

func (p *parser) fail(e *fault.Error) {
	if p.err == nil {
		p.err = e
	}
}

// object walks the members of a valid JSON object.
func (p *parser) object(text []byte) {
	i := skipSpace(text, 1)
	for text[i] != '}' {
		end := valueEnd(text, i)
		name := text[i+1 : end-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			name = unquote(text[i:end])
		}
		i = skipSpace(text, skipSpace(text, end)+1) // the colon
		end = valueEnd(text, i)
		p.member(name, text[i:end])
		if i = skipSpace(text, end); text[i] == ',' {
			i = skipSpace(text, i+1)
		}
	}
}

func (p *parser) member(name, value []byte) {
	var bit field
	var bad *fault.Error
	f := &p.frame
	switch string(name) {
	case "kind":
		bit, bad = fieldKind, setKind(f, value)
	case "route":
		bit, bad = fieldRoute, setNumber(&f.Route, value, errNoRoute)
	case "id":
		bit, bad = fieldID, setID(f, value)
	case "seq":
		bit, bad = fieldSeq, setNumber(&f.Seq, value, errSeq)
	case "payload":
		bit = fieldPayload
		if p.seen&(fieldPayload|fieldBase64) == 0 {
			f.Payload = value
		}
	case "payload_b64":
		bit, bad = fieldBase64, setBase64(f, value)
	case "ack":
		bit, bad = fieldAck, setAck(f, value)
	default:
		if p.strict {
			p.fail(errUnknownField)
		}
		return
	}
	if p.seen&bit != 0 {
		p.fail(errRepeated)
	}
	p.seen |= bit
	if bad != nil {
		p.fail(bad)
	}
}

func (p *parser) finish() {
	if p.seen&fieldPayload != 0 && p.seen&fieldBase64 != 0 {
		p.fail(errTwoPayloads)
	}
	if p.seen&fieldAck != 0 && p.frame.Kind != KindPush {
		p.fail(errAck)
	}
	if e := p.frame.check(p.strict, errNoID); e != nil {
		p.fail(e)
	}
}

func setKind(f *Frame, value []byte) *fault.Error {
	if value[0] != '"' {
		return errKind
	}
	name := value[1 : len(value)-1]
	for k := KindRequest; k <= KindError; k++ {
		if string(name) == kindNames[k] {
			f.Kind = k
			return nil
		}
	}
	return errKind
}

func setNumber(to *uint32, value []byte, bad *fault.Error) *fault.Error {
	n, ok := integer(value, 1<<32-1)
	if !ok {
		return bad
	}
	*to = uint32(n)
	return nil
}

func setID(f *Frame, value []byte) *fault.Error {
	n, ok := integer(value, MaxID)
	if !ok || n == 0 {
		return errNoID
	}
	f.ID = n
	return nil
}

func setAck(f *Frame, value []byte) *fault.Error {
	f.Ack = value[0] == 't'
	if f.Ack || value[0] == 'f' {
		return nil
	}
	return errAck
}

// setBase64 decodes strictly: encoding/base64 would let line breaks pass.
func setBase64(f *Frame, value []byte) *fault.Error {
	if value[0] != '"' {
		return errBase64
	}
	text := value[1 : len(value)-1]
	if bytes.IndexByte(text, '\\') >= 0 { // "\/" is how some encoders write a slash
		text = unquote(value)
	}
	if bytes.ContainsAny(text, "\r\n") {
		return errBase64
	}
	enc := base64.StdEncoding.Strict()
	out := make([]byte, enc.DecodedLen(len(text)))
	n, err := enc.Decode(out, text)
	if err != nil {
		return errBase64
	}
	f.Payload, f.Base64 = out[:n], true
	return nil
}

// integer reads a JSON number that is written as an integer from 0 to limit.
func integer(value []byte, limit uint64) (uint64, bool) {
	if len(value) > 19 { // cannot overflow below
		return 0, false
	}
	var n uint64
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, n <= limit
}

func skipSpace(text []byte, i int) int {
	for text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r' {
		i++
	}
	return i
}

// valueEnd returns the index after the value that begins at i of a valid JSON text.
func valueEnd(text []byte, i int) int {
	switch text[i] {
	case '"':
		return stringEnd(text, i)
	case '{', '[':
		for depth := 0; ; i++ {
			switch text[i] {
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			case '"':
				i = stringEnd(text, i) - 1
			}
		}
	}
	for ; ; i++ {
		switch text[i] {
		case ',', '}', ']', ':', ' ', '\t', '\n', '\r':
			return i
		}
	}
}

func stringEnd(text []byte, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// unquote reads a valid JSON string with escapes.
func unquote(quoted []byte) []byte {
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return nil
	}
	return []byte(s)
}

func appendJSON(dst []byte, f Frame) []byte {
	dst = appendHead(dst, f.Kind, f.Route)
	if f.ID != 0 {
		dst = append(dst, `,"id":`...)
		dst = strconv.AppendUint(dst, f.ID, 10)
	}
	if f.Seq != 0 || f.Kind == KindPush {
		dst = append(dst, `,"seq":`...)
		dst = strconv.AppendUint(dst, uint64(f.Seq), 10)
	}
	return appendTail(dst, f.Payload, f.Base64, f.Ack)
}

func appendHead(dst []byte, k Kind, route uint32) []byte {
	dst = append(dst, `{"kind":"`...)
	dst = append(dst, k.String()...)
	dst = append(dst, `","route":`...)
	return strconv.AppendUint(dst, uint64(route), 10)
}

func appendTail(dst, payload []byte, b64, ack bool) []byte {
	if ack {
		dst = append(dst, `,"ack":true`...)
	}
	switch {
	case b64:
		dst = append(dst, `,"payload_b64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, payload)
		dst = append(dst, '"')
	case len(payload) > 0:
		dst = append(dst, `,"payload":`...)
		dst = append(dst, payload...)
	}
	return append(dst, '}')
}
