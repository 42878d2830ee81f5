package identity

import (
	"encoding/hex"
	"fmt"

	"github.com/google/uuid"
)

// SessionID is a UUIDv7 whose last byte is the hash slot of its user. Every reader may treat it
// as opaque; the suite uses that byte to find the leader that knows the session from its id
// alone (a kick or push by session id names no user). The other 66 random bits keep it unique.
type SessionID [16]byte

// NewSessionID makes an id for a user of the given hash slot. It is unique across processes.
func NewSessionID(hashSlot uint8) SessionID {
	id := SessionID(uuid.Must(uuid.NewV7()))
	id[15] = hashSlot
	return id
}

// HashSlot returns the slot of the session's user.
func (s SessionID) HashSlot() uint8 { return s[15] }

// IsZero reports whether the id is unset.
func (s SessionID) IsZero() bool { return s == SessionID{} }

func (s SessionID) String() string { return uuid.UUID(s).String() }

// ParseSessionID reads the canonical form of 36 characters.
func ParseSessionID(v string) (SessionID, error) {
	if len(v) != textBytes {
		return SessionID{}, fmt.Errorf("%w: session_id", ErrInvalid)
	}
	u, err := uuid.Parse(v)
	if err != nil || u.Version() != 7 {
		return SessionID{}, fmt.Errorf("%w: session_id", ErrInvalid)
	}
	return SessionID(u), nil
}

// SessionIDFromBytes reads the 16 byte form used between services.
func SessionIDFromBytes(b []byte) (SessionID, error) {
	if len(b) != 16 {
		return SessionID{}, fmt.Errorf("%w: session_id", ErrInvalid)
	}
	return SessionID(b), nil
}

// textBytes is the length of the canonical form.
const textBytes = 36

// MarshalText writes the canonical form.
func (s SessionID) MarshalText() ([]byte, error) {
	return s.AppendText(make([]byte, 0, textBytes))
}

// AppendText appends the canonical form. It never fails.
func (s SessionID) AppendText(dst []byte) ([]byte, error) {
	dst = append(hex.AppendEncode(dst, s[:4]), '-')
	dst = append(hex.AppendEncode(dst, s[4:6]), '-')
	dst = append(hex.AppendEncode(dst, s[6:8]), '-')
	dst = append(hex.AppendEncode(dst, s[8:10]), '-')
	return hex.AppendEncode(dst, s[10:]), nil
}

// UnmarshalText reads the canonical form.
func (s *SessionID) UnmarshalText(b []byte) error {
	v, err := ParseSessionID(string(b))
	*s = v
	return err
}
