package client

import (
	"errors"
	"fmt"

	"github.com/switchyard-io/switchyard/shared/fault"
)

// Errors of a client. Refusals by the gateway are *fault.Error values.
var (
	ErrClosed   = errors.New("client: closed")
	ErrProtocol = errors.New("client: the gateway broke the protocol")
	ErrNoAck    = errors.New("client: elura.v2 has no acknowledgements")
)

// CloseError says that the gateway closed the connection with a close frame.
type CloseError struct {
	Code   fault.CloseCode // 0: it gave none
	Reason string
}

func (e *CloseError) Error() string {
	return fmt.Sprintf("client: closed by the gateway: %d %s", e.Code, e.Reason)
}
