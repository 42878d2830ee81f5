package fault

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/subject"
)

// Body is the JSON of an error: payload of an error frame, body of an HTTP or NATS error reply.
type Body struct {
	Code         Code   `json:"code"`
	Message      string `json:"message"`
	Retryable    bool   `json:"retryable"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
}

// Body returns what a caller may see of the error.
func (e *Error) Body() Body {
	return Body{Code: e.Code, Message: e.Message, Retryable: e.Code.Retryable(), RetryAfterMS: e.RetryAfter.Milliseconds()}
}

// Err turns a received body back into an Error.
func (b Body) Err() *Error {
	e := New(b.Code, b.Message)
	e.RetryAfter = time.Duration(b.RetryAfterMS) * time.Millisecond
	return e
}

// JSON is the encoded Body.
func (e *Error) JSON() []byte {
	b, err := json.Marshal(e.Body())
	if err != nil { // strings and numbers only: cannot fail
		panic(err)
	}
	return b
}

// WriteHTTP answers with the error's status and body.
func (e *Error) WriteHTTP(w http.ResponseWriter) { e.WriteHTTPStatus(w, e.Code.HTTPStatus()) }

// WriteHTTPStatus is WriteHTTP with a status that says more than the code's own, such as 405.
func (e *Error) WriteHTTPStatus(w http.ResponseWriter, status int) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10))
	}
	w.WriteHeader(status)
	_, _ = w.Write(e.JSON())
}

// Msg is the error as a NATS message with the service error headers.
func (e *Error) Msg(to string) *nats.Msg {
	r := nats.NewMsg(to)
	r.Header.Set(subject.HeaderErrorCode, string(e.Code))
	r.Header.Set(subject.HeaderError, e.Message)
	r.Data = e.JSON()
	return r
}

// Respond answers a NATS request with the error and the service error headers. A message
// without a reply subject is let go.
func (e *Error) Respond(m *nats.Msg) error {
	if m.Reply == "" {
		return nil
	}
	return m.RespondMsg(e.Msg(m.Reply))
}

// FromMsg returns the error that a NATS reply carries, or nil.
func FromMsg(m *nats.Msg) *Error {
	if m.Header.Get(subject.HeaderErrorCode) == "" {
		return nil
	}
	var b Body
	if err := json.Unmarshal(m.Data, &b); err != nil || b.Code == "" {
		return New(Code(m.Header.Get(subject.HeaderErrorCode)), m.Header.Get(subject.HeaderError))
	}
	return b.Err()
}
