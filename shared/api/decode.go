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
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return decodeFault(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fault.New(fault.InvalidRequest, "request has trailing data")
	}
	return exactFields(data, fieldsOf(reflect.TypeOf(v)))
}

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
				return fault.New(fault.InvalidRequest, "a field's name is misspelt")
			}
			if seen&(1<<bit) != 0 {
				return fault.Newf(fault.InvalidRequest, "%s is there twice", data[start:i])
			}
			seen |= 1 << bit
		}
	}
	return nil
}

var fieldCache sync.Map // reflect.Type -> map[string]int; bounded by the request types

// fieldsOf lists the JSON names of a pointer to a struct, embedded ones included.
func fieldsOf(t reflect.Type) map[string]int {
	if c, ok := fieldCache.Load(t); ok {
		return c.(map[string]int)
	}
	out := map[string]int{}
	for _, f := range reflect.VisibleFields(t.Elem()) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag != "" && tag != "-" {
			out[tag] = len(out)
		}
	}
	fieldCache.Store(t, out)
	return out
}
