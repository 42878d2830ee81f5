package bench

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/switchyard-io/switchyard/shared/identity"
)

// Region and realm of the fleet's users, and the route of its pushes.
const (
	region = "bench"
	realm  = "main"
	route  = 1000
)

const (
	minPayload = 40 // the due instant and its JSON around it
	dueField   = `{"due":`
)

// user is the identity of session i.
func user(i int) identity.Identity {
	name := "u" + strconv.Itoa(i)
	return identity.Identity{AccountID: name, UserID: name, RegionID: region, RealmID: realm, Generation: 1}
}

// payload is a JSON object of about size bytes that tells when the push was due.
func payload(due time.Time, size int) []byte {
	b := make([]byte, 0, size+8)
	b = append(b, dueField...)
	b = strconv.AppendInt(b, due.UnixNano(), 10)
	b = append(b, `,"pad":"`...)
	if pad := size - len(b) - 2; pad > 0 {
		b = append(b, strings.Repeat("x", pad)...)
	}
	return append(b, `"}`...)
}

// due reads the instant back; false for a push that is not the bench's.
func due(p []byte) (time.Time, bool) {
	rest, ok := bytes.CutPrefix(p, []byte(dueField))
	digits, _, ok2 := bytes.Cut(rest, []byte(","))
	if !ok || !ok2 {
		return time.Time{}, false
	}
	n, err := strconv.ParseInt(string(digits), 10, 64)
	return time.Unix(0, n), err == nil
}
