package owner

import (
	"time"

	"github.com/switchyard-io/switchyard/shared/identity"
)

// Message is one push on its way to any number of sessions. Its fields are read-only.
type Message struct {
	Route     uint32
	Payload   []byte
	Base64    bool
	Ack       bool
	AckUntil  time.Time // zero unless Ack
	MessageID string
	Expires   time.Time // zero: never
	Exclude   []identity.SessionID
}
