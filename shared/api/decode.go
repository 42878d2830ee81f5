package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/switchyard-io/switchyard/shared/fault"
)

// MaxRequestBytes bounds a request body, whatever a NATS server lets through.
const MaxRequestBytes = 1 << 20

// Decode reads exactly one JSON object into the struct that v points to. It refuses unknown,
// misspelt (also in case) and repeated fields, trailing data and invalid UTF-8, so that what a
// sender meant is never guessed. An empty body is read as {}.
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
		return decodeFault(err)
	}
	return exactFields(data, known.index)
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
func decodeFault(err error) error {
	var typeErr *json.UnmarshalTypeError
	if errors.As(err, &typeErr) && typeErr.Field != "" {
		return fault.Newf(fault.InvalidRequest, "%s has the wrong type", typeErr.Field)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok && len(name) <= 64 {
		return fault.Newf(fault.InvalidRequest, "unknown field %s", name)
	}
	return fault.Wrap(fault.InvalidRequest, "request is malformed", err)
}

// exactFields checks the names at the top of a valid JSON object: encoding/json alone would
// take "USERS" for "users" and the last of two.
func exactFields(data []byte, known map[string]int) error {
	var seen uint64
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
			start := i + 1
			for i++; data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
			if depth != 1 || !name {
				continue
			}
			name = false
			bit, ok := known[string(data[start:i])]
			if !ok {
				return unknownField(data[start:i])
			}
			if seen&(1<<bit) != 0 {
				return fault.Newf(fault.InvalidRequest, "%s is there twice", data[start:i])
			}
			seen |= 1 << bit
		}
	}
	return nil
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
