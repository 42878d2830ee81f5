package identity

import (
	"errors"
	"unicode"
	"unicode/utf8"
)

// Limits of the written forms, in bytes.
const (
	MaxNameBytes  = 128 // account, user and device ids
	MaxTokenBytes = 32  // region and realm ids
	MaxFlagBytes  = 16  // device flags
	MaxNodeBytes  = 64  // node ids
	MaxGroupBytes = 64  // group names
)

// ErrInvalid is wrapped by every validation error of this package.
var ErrInvalid = errors.New("invalid identity")

// FieldError is a validation error that names the field whose form is wrong. It wraps ErrInvalid.
type FieldError string

func (f FieldError) Error() string { return ErrInvalid.Error() + ": " + string(f) }

// Unwrap returns ErrInvalid.
func (f FieldError) Unwrap() error { return ErrInvalid }

// Identity is the principal that a ticket proves.
type Identity struct {
	AccountID  string `json:"account_id"`
	UserID     string `json:"user_id"`
	RegionID   string `json:"region_id"`
	RealmID    string `json:"realm_id"`
	Generation int64  `json:"generation"`
}

// Validate reports the first field whose form is wrong.
func (i Identity) Validate() error {
	if !ValidName(i.AccountID) {
		return FieldError("account_id")
	}
	if !ValidName(i.UserID) {
		return FieldError("user_id")
	}
	if !ValidToken(i.RegionID) {
		return FieldError("region_id")
	}
	if !ValidToken(i.RealmID) {
		return FieldError("realm_id")
	}
	if i.Generation < 1 {
		return FieldError("generation")
	}
	return nil
}

// UID returns the presence key of the identity, which must be valid.
func (i Identity) UID() UID { return UID(i.RegionID + "/" + i.RealmID + "/" + i.UserID) }

// ValidName reports whether s is 1-128 bytes of printable UTF-8 without control characters.
func ValidName(s string) bool {
	if len(s) == 0 || len(s) > MaxNameBytes || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// ValidToken reports whether s has the form of a region or realm id: [A-Za-z0-9_-]{1,32}.
func ValidToken(s string) bool { return len(s) <= MaxTokenBytes && wordBytes(s) }

// ValidNode reports whether s can be a node id: [A-Za-z0-9_-]{1,64}, so that it is one subject token.
func ValidNode(s string) bool { return len(s) <= MaxNodeBytes && wordBytes(s) }

// ValidGroup reports whether s can name a group: [A-Za-z0-9_-]{1,64}.
func ValidGroup(s string) bool { return len(s) <= MaxGroupBytes && wordBytes(s) }

// wordBytes reports whether s is not empty and has only [A-Za-z0-9_-].
func wordBytes(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}
