package fault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Code is an error code of the protocol.
type Code string

// The codes.
const (
	InvalidRequest   Code = "INVALID_REQUEST"
	Unauthenticated  Code = "UNAUTHENTICATED"
	Forbidden        Code = "FORBIDDEN"
	Banned           Code = "BANNED"
	SessionRevoked   Code = "SESSION_REVOKED"
	NotFound         Code = "NOT_FOUND"
	RouteNotFound    Code = "ROUTE_NOT_FOUND"
	DuplicateSession Code = "DUPLICATE_SESSION"
	TooLarge         Code = "TOO_LARGE"
	RateLimited      Code = "RATE_LIMITED"
	QueueFull        Code = "QUEUE_FULL"
	RealmFull        Code = "REALM_FULL"
	Maintenance      Code = "MAINTENANCE"
	Unavailable      Code = "UNAVAILABLE"
	Timeout          Code = "TIMEOUT"
	Internal         Code = "INTERNAL"
)

type class struct {
	status    int
	retryable bool
}

var classes = map[Code]class{
	InvalidRequest:   {http.StatusBadRequest, false},
	Unauthenticated:  {http.StatusUnauthorized, false},
	Forbidden:        {http.StatusForbidden, false},
	Banned:           {http.StatusForbidden, false},
	SessionRevoked:   {http.StatusForbidden, false},
	NotFound:         {http.StatusNotFound, false},
	RouteNotFound:    {http.StatusNotFound, false},
	DuplicateSession: {http.StatusConflict, false},
	TooLarge:         {http.StatusRequestEntityTooLarge, false},
	RateLimited:      {http.StatusTooManyRequests, true},
	QueueFull:        {http.StatusTooManyRequests, true},
	RealmFull:        {http.StatusServiceUnavailable, true},
	Maintenance:      {http.StatusServiceUnavailable, true},
	Unavailable:      {http.StatusServiceUnavailable, true},
	Timeout:          {http.StatusGatewayTimeout, true},
	Internal:         {http.StatusInternalServerError, false},
}

// HTTPStatus is the status of an HTTP reply with this code, 500 for one that is not ours.
func (c Code) HTTPStatus() int {
	if k, ok := classes[c]; ok {
		return k.status
	}
	return http.StatusInternalServerError
}

// Retryable tells whether the same request may succeed later.
func (c Code) Retryable() bool { return classes[c].retryable }

// Error is a failure that a caller may see. Two Errors match in errors.Is when their codes do.
type Error struct {
	Code       Code
	Message    string
	RetryAfter time.Duration // 0: not said
	cause      error
}

// New makes an Error. The message is shown to the caller.
func New(code Code, message string) *Error { return &Error{Code: code, Message: message} }

// Newf is New with a format.
func Newf(code Code, format string, args ...any) *Error {
	return New(code, fmt.Sprintf(format, args...))
}

// Wrap makes an Error with a cause that logs show and callers do not.
func Wrap(code Code, message string, cause error) *Error {
	return &Error{Code: code, Message: message, cause: cause}
}

// After returns a copy that says when to try again.
func (e *Error) After(d time.Duration) *Error {
	c := *e
	c.RetryAfter = d
	return &c
}

func (e *Error) Error() string {
	if e.cause != nil {
		return string(e.Code) + ": " + e.Message + ": " + e.cause.Error()
	}
	return string(e.Code) + ": " + e.Message
}

// Unwrap returns the cause, if any.
func (e *Error) Unwrap() error { return e.cause }

// Is matches by code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Sentinels, one a code, for errors.Is and for failures that need no more words.
var (
	ErrInvalidRequest   = New(InvalidRequest, "invalid request")
	ErrUnauthenticated  = New(Unauthenticated, "not authenticated")
	ErrForbidden        = New(Forbidden, "not allowed")
	ErrBanned           = New(Banned, "banned")
	ErrSessionRevoked   = New(SessionRevoked, "session revoked")
	ErrNotFound         = New(NotFound, "not found")
	ErrRouteNotFound    = New(RouteNotFound, "no such route")
	ErrDuplicateSession = New(DuplicateSession, "another session is active")
	ErrTooLarge         = New(TooLarge, "too large")
	ErrRateLimited      = New(RateLimited, "too many requests")
	ErrQueueFull        = New(QueueFull, "queue full")
	ErrRealmFull        = New(RealmFull, "realm full")
	ErrMaintenance      = New(Maintenance, "maintenance")
	ErrUnavailable      = New(Unavailable, "temporarily unavailable")
	ErrTimeout          = New(Timeout, "timed out")
	ErrInternal         = New(Internal, "internal error")
)

// From turns any error into an Error: one in the chain as it is, a deadline as TIMEOUT, anything
// else as INTERNAL with the error as its hidden cause. From(nil) is nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return Wrap(Timeout, "timed out", err)
	}
	return Wrap(Internal, "internal error", err)
}
