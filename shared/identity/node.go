package identity

import (
	"os"
	"strings"

	"github.com/google/uuid"
)

// NewBootID names one life of a process: 32 hexadecimal characters, unique, and increasing with
// the time of the start.
func NewBootID() string { return strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", "") }

// DefaultNodeID is the host name, with what is no subject token replaced by '-', and a random
// suffix, so that two processes of one host never share an id by accident.
func DefaultNodeID() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "node"
	}
	clean := []byte(host)
	for i := range clean {
		if !wordBytes(string(clean[i : i+1])) {
			clean[i] = '-'
		}
	}
	const suffix = 8
	if len(clean) > MaxNodeBytes-suffix-8 { // leave room for "-<n>" of an all-in-one node
		clean = clean[:MaxNodeBytes-suffix-8]
	}
	return string(clean) + "-" + uuid.NewString()[:suffix]
}
