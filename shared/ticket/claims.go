package ticket

import (
	"fmt"
	"path"
	"time"

	"github.com/google/uuid"

	"github.com/switchyard-io/switchyard/shared/identity"
)

// Purpose says what a ticket may be used for.
type Purpose string

// The purposes.
const (
	Login     Purpose = "login"
	Reconnect Purpose = "reconnect"
)

// What tickets say about who made them and for whom, unless configured otherwise.
const (
	DefaultIssuer   = "switchyard"
	DefaultAudience = "switchyard-gateway"
)

// Bounds of the written form.
const (
	MaxBytes      = 8 << 10 // a whole ticket
	MaxGroups     = 64      // group globs in one ticket
	MaxGroupBytes = 64      // one group glob
)

// Device is what a ticket says about the device. An empty field leaves it to the client; the
// level is never the client's.
type Device struct {
	ID    string         `json:"id,omitempty"`
	Flag  string         `json:"flag,omitempty"`
	Level identity.Level `json:"level,omitempty"`
}

// Claims are the content of a ticket.
type Claims struct {
	ID        string             // jti: the key under which the ticket is used up
	Purpose   Purpose            // required
	Identity  identity.Identity  // sub, rgn, rlm, usr, gen
	Device    *Device            // dev; nil: the ticket names none
	Groups    []string           // grp: globs (path.Match) of groups that the session may join itself
	Lineage   identity.SessionID // sid: reconnect only, the first session of the chain
	IssuedAt  time.Time          // iat, whole seconds
	ExpiresAt time.Time          // exp, whole seconds; valid strictly before
}

// NewID makes a ticket id.
func NewID() string { return uuid.NewString() }

// ResolveDevice is the device of a session that authenticates with this ticket: each field is
// the ticket's where it names one, else the client's. The client's level is ignored: only a
// ticket grants it. The result is normalized; the error wraps identity.ErrInvalid.
func (c Claims) ResolveDevice(client identity.Device) (identity.Device, error) {
	d := identity.Device{ID: client.ID, Flag: client.Flag}
	if c.Device != nil {
		if c.Device.ID != "" {
			d.ID = c.Device.ID
		}
		if c.Device.Flag != "" {
			d.Flag = c.Device.Flag
		}
		d.Level = c.Device.Level
	}
	return d.Normalize()
}

// LineageFor is the lineage of a session that authenticates with this ticket: a reconnect ticket
// carries its own on, a login ticket begins one with the session's id.
func (c Claims) LineageFor(session identity.SessionID) identity.SessionID {
	if c.Purpose == Reconnect {
		return c.Lineage
	}
	return session
}

// GrantsGroup reports whether a client with this ticket may join the group by itself.
func (c Claims) GrantsGroup(name string) bool { return GrantsGroup(c.Groups, name) }

// GrantsGroup reports whether one of the globs matches the group's name.
func GrantsGroup(globs []string, name string) bool {
	for _, g := range globs {
		if ok, err := path.Match(g, name); err == nil && ok {
			return true
		}
	}
	return false
}

// Validate reports the first claim whose form is wrong, without looking at any clock.
func (c Claims) Validate() error {
	if !identity.ValidNode(c.ID) {
		return fmt.Errorf("%w: ticket id", identity.ErrInvalid)
	}
	if c.Purpose != Login && c.Purpose != Reconnect {
		return fmt.Errorf("%w: purpose", identity.ErrInvalid)
	}
	if (c.Purpose == Reconnect) == c.Lineage.IsZero() {
		return fmt.Errorf("%w: session lineage", identity.ErrInvalid)
	}
	if err := c.Identity.Validate(); err != nil {
		return err
	}
	if err := c.Device.validate(); err != nil {
		return err
	}
	if err := ValidGroups(c.Groups); err != nil {
		return err
	}
	if !c.ExpiresAt.After(c.IssuedAt) {
		return fmt.Errorf("%w: exp", identity.ErrInvalid)
	}
	return nil
}

func (d *Device) validate() error {
	if d == nil {
		return nil
	}
	if d.ID != "" && !identity.ValidName(d.ID) {
		return fmt.Errorf("%w: device id", identity.ErrInvalid)
	}
	if d.Flag != "" && !identity.ValidFlag(d.Flag) {
		return fmt.Errorf("%w: device flag", identity.ErrInvalid)
	}
	return nil
}

// ValidGroups checks the number, size and syntax of group globs.
func ValidGroups(globs []string) error {
	if len(globs) > MaxGroups {
		return fmt.Errorf("%w: more than %d groups", identity.ErrInvalid, MaxGroups)
	}
	for _, g := range globs {
		if g == "" || len(g) > MaxGroupBytes {
			return fmt.Errorf("%w: group glob", identity.ErrInvalid)
		}
		if _, err := path.Match(g, ""); err != nil {
			return fmt.Errorf("%w: group glob", identity.ErrInvalid)
		}
	}
	return nil
}
