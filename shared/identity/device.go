package identity

// Level says how a device treats the other devices of its class at login (PROTOCOL.md section 5).
type Level uint8

// The levels. Only a ticket can grant LevelMaster.
const (
	LevelSlave Level = iota
	LevelMaster
)

// DefaultFlag is the device class of a device that names none.
const DefaultFlag = "app"

func (l Level) String() string {
	if l == LevelMaster {
		return "master"
	}
	return "slave"
}

// ParseLevel reads "master" or "slave"; the empty string is the default, slave.
func ParseLevel(s string) (Level, error) {
	switch s {
	case "", "slave":
		return LevelSlave, nil
	case "master":
		return LevelMaster, nil
	}
	return LevelSlave, FieldError("level")
}

// MarshalText writes "master" or "slave".
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (l *Level) UnmarshalText(b []byte) error {
	v, err := ParseLevel(string(b))
	*l = v
	return err
}

// Device is one client installation. An empty ID means "not named": as a slave it conflicts
// with nothing.
type Device struct {
	ID    string `json:"id,omitempty"`
	Flag  string `json:"flag"`
	Level Level  `json:"level"`
}

// Normalize fills the default flag and checks the forms.
func (d Device) Normalize() (Device, error) {
	if d.Flag == "" {
		d.Flag = DefaultFlag
	}
	if !ValidFlag(d.Flag) {
		return d, FieldError("flag")
	}
	if d.ID != "" && !ValidName(d.ID) {
		return d, FieldError("id")
	}
	return d, nil
}

// ValidFlag reports whether s is a device class: [a-z0-9_]{1,16}.
func ValidFlag(s string) bool {
	if len(s) == 0 || len(s) > MaxFlagBytes {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}
