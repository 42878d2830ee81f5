package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/switchyard-io/switchyard/shared/fault"
)

// MaxRequestBytes bounds a request body, whatever a NATS server lets through.
const MaxRequestBytes = 1 << 20

// Decode reads exactly one JSON object into the struct that v points to. It refuses unknown,
// misspelt (also in case) and repeated fields, trailing data, invalid UTF-8 and, outside of raw
// payloads, halves of surrogate pairs, so that what a sender meant is never guessed. An empty body
// is read as {}.
func Decode(data []byte, v any) error {
	if len(data) > MaxRequestBytes {
		return fault.New(fault.TooLarge, "request is too large")
	}
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		data = []byte("{}")
	}
	if data[0] != '{' {
		return fault.New(fault.InvalidRequest, "request is no JSON object")
	}
	if !utf8.Valid(data) { // a raw payload would carry it into a WebSocket text message
		return fault.New(fault.InvalidRequest, "request is not UTF-8")
	}
	known := fieldsOf(reflect.TypeOf(v))
	if err := unmarshal(data, v, known.nested); err != nil {
		return decodeFault(err, data, reflect.TypeOf(v), known)
	}
	return exactFields(data, known)
}

// unmarshal reads one value. Names at the top are checked by exactFields; those of objects further
// down are encoding/json's to check, which costs a decoder.
func unmarshal(data []byte, v any, nested bool) error {
	if !nested {
		return json.Unmarshal(data, v)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errTrailing
	}
	return nil
}

var errTrailing = errors.New("trailing data")

// decodeFault says what is wrong without repeating content.
func decodeFault(err error, data []byte, t reflect.Type, known fields) error {
	var own *fault.Error
	if errors.As(err, &own) {
		return own
	}
	var typeErr *json.UnmarshalTypeError
	if errors.As(err, &typeErr) {
		if name := known.path(typeErr.Field); name != "" {
			return fault.Newf(fault.InvalidRequest, "%s has the wrong type", name)
		}
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok && len(name) <= 64 {
		return fault.Newf(fault.InvalidRequest, "unknown field %s", name)
	}
	if name := culprit(data, t, known); name != "" {
		return fault.Wrap(fault.InvalidRequest, name+" is malformed", err)
	}
	return fault.Wrap(fault.InvalidRequest, "request is malformed", err)
}

// culprit finds the field at the top whose value cannot be read by itself.
func culprit(data []byte, t reflect.Type, known fields) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		alone, err := json.Marshal(map[string]json.RawMessage{name: members[name]})
		if _, ok := known.index[name]; ok && err == nil && json.Unmarshal(alone, reflect.New(t.Elem()).Interface()) != nil {
			return name
		}
	}
	return ""
}

// exactFields checks the names at the top of a valid JSON object: encoding/json alone would
// take "USERS" for "users" and the last of two. It also checks the strings inside.
func exactFields(data []byte, known fields) error {
	var seen uint64
	var field []byte
	raw := false
	depth, name := 0, true // name: the next string at depth 1 is a field name
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
			name = name || depth == 1
		case '"':
			start, escapes := i+1, false
			for i++; data[i] != '"'; i++ {
				if data[i] == '\\' {
					escapes = true
					i++
				}
			}
			if depth != 1 || !name {
				if escapes && !raw && halfPair(data[start:i]) {
					return fault.Newf(fault.InvalidRequest, "%s has half a surrogate pair", field)
				}
				continue
			}
			name, field = false, data[start:i]
			bit, ok := known.index[string(field)]
			if !ok {
				return unknownField(field)
			}
			if seen&(1<<bit) != 0 {
				return fault.Newf(fault.InvalidRequest, "%s is there twice", field)
			}
			seen |= 1 << bit
			raw = known.raw&(1<<bit) != 0
		}
	}
	return nil
}

// halfPair reports whether the inside of a valid JSON string escapes half of a surrogate pair:
// encoding/json would put U+FFFD in its place, and so make one of two different names.
func halfPair(s []byte) bool {
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		if i++; s[i] != 'u' {
			continue
		}
		r := escaped(s[i+1:])
		i += 4
		if !utf16.IsSurrogate(r) {
			continue
		}
		next := s[i+1:]
		if len(next) < 6 || next[0] != '\\' || next[1] != 'u' || utf16.DecodeRune(r, escaped(next[2:])) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

// escaped reads the four digits of an escape.
func escaped(digits []byte) rune {
	n, err := strconv.ParseUint(string(digits[:4]), 16, 16)
	if err != nil { // the JSON is valid: cannot fail
		return utf8.RuneError
	}
	return rune(n)
}

func unknownField(name []byte) error {
	if len(name) > 64 {
		return fault.New(fault.InvalidRequest, "unknown field")
	}
	return fault.Newf(fault.InvalidRequest, "unknown field %q", name)
}

// fields are the JSON names of a request, numbered, and whether it has objects inside whose names
// must be checked too.
type fields struct {
	index  map[string]int
	nested bool
	raw    uint64 // a bit for each field that is passed on as it is
}

// path drops the names of embedded Go structs from the beginning of encoding/json's path.
func (f fields) path(p string) string {
	for p != "" {
		first, rest, _ := strings.Cut(p, ".")
		if _, ok := f.index[first]; ok {
			return p
		}
		p = rest
	}
	return ""
}

var fieldCache sync.Map // reflect.Type -> fields; bounded by the request types

// fieldsOf lists the JSON names of a pointer to a struct, embedded ones included.
func fieldsOf(t reflect.Type) fields {
	if c, ok := fieldCache.Load(t); ok {
		return c.(fields)
	}
	out := fields{index: map[string]int{}}
	for _, f := range reflect.VisibleFields(t.Elem()) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "" && tag != "-" {
			if f.Type == reflect.TypeFor[json.RawMessage]() {
				out.raw |= 1 << len(out.index)
			}
			out.index[tag] = len(out.index)
			out.nested = out.nested || holdsObjects(f.Type)
		}
	}
	fieldCache.Store(t, out)
	return out
}

// holdsObjects reports whether values of the type are read from JSON objects with fixed names.
func holdsObjects(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return holdsObjects(t.Elem())
	default:
		return t.Kind() == reflect.Struct
	}
}
