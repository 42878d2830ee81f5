package identity

import (
	"fmt"
	"strings"
)

// UID is the presence key "region/realm/user". The user part may itself contain slashes:
// the string is split at its first two.
type UID string

// ParseUID checks s and returns it as a UID.
func ParseUID(s string) (UID, error) {
	region, rest, ok := strings.Cut(s, "/")
	realm, user, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 {
		return "", fmt.Errorf("%w: uid needs region/realm/user", ErrInvalid)
	}
	return NewUID(region, realm, user)
}

// NewUID joins and checks the three parts.
func NewUID(region, realm, user string) (UID, error) {
	if !ValidToken(region) || !ValidToken(realm) || !ValidName(user) {
		return "", fmt.Errorf("%w: uid", ErrInvalid)
	}
	return UID(region + "/" + realm + "/" + user), nil
}

// Split returns the three parts. A UID that did not come from this package's constructors may
// lack some; they are empty then.
func (u UID) Split() (region, realm, user string) {
	region, rest, _ := strings.Cut(string(u), "/")
	realm, user, _ = strings.Cut(rest, "/")
	return region, realm, user
}
