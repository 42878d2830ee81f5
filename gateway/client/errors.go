package client

import "github.com/switchyard-io/switchyard/shared/fault"

// CloseError says that the gateway closed the connection.
type CloseError struct {
	Code   fault.CloseCode
	Reason string
}

func (e *CloseError) Error() string { return "closed by the gateway: " + e.Reason }
