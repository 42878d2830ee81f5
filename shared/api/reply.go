package api

import (
	"encoding/json"
	"strconv"

	"github.com/switchyard-io/switchyard/shared/identity"
)

// AppendJSON appends what json.Marshal would write. A leader answers every push to a user with one,
// and reflection would be a tenth of its work.
func (r *PushReply) AppendJSON(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"delivered":`...), int64(r.Delivered), 10)
	if r.Acked != nil {
		dst = strconv.AppendInt(append(dst, `,"acked":`...), int64(*r.Acked), 10)
	}
	dst = append(dst, `,"sessions":`...)
	dst = appendList(dst, r.Sessions, appendSessionResult)
	dst = append(dst, `,"offline":`...)
	dst = appendList(dst, r.Offline, appendString)
	dst = append(dst, `,"unknown":`...)
	dst = appendList(dst, r.Unknown, appendString)
	dst = append(dst, `,"errors":`...)
	dst = appendList(dst, r.Errors, appendUserError)
	return append(dst, '}')
}

func appendSessionResult(dst []byte, s SessionResult) []byte {
	dst = appendString(append(dst, `{"uid":`...), s.UID)
	dst, _ = s.SessionID.AppendText(append(dst, `,"session_id":"`...)) // never fails
	dst = appendString(append(dst, `","gateway_id":`...), s.GatewayID)
	return append(appendString(append(dst, `,"status":`...), s.Status), '}')
}

func appendUserError(dst []byte, e UserError) []byte {
	dst = append(dst, '{')
	if e.UID != "" {
		dst = append(appendString(append(dst, `"uid":`...), e.UID), ',')
	}
	return append(appendString(append(dst, `"code":`...), e.Code), '}')
}

func appendList[E any](dst []byte, list []E, element func([]byte, E) []byte) []byte {
	if list == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i, e := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = element(dst, e)
	}
	return append(dst, ']')
}

// appendString writes plain ASCII itself; what might need an escape is encoding/json's.
func appendString[S ~string](dst []byte, s S) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(string(s))
			if err != nil { // a string: cannot fail
				panic(err)
			}
			return append(dst, quoted...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}

// JSONBytes is room for the reply without growing, for names of usual length.
func (r *PushReply) JSONBytes() int {
	const base, session, name = 96, 160, identity.MaxNameBytes / 2
	return base + session*len(r.Sessions) + name*(len(r.Offline)+len(r.Unknown)+len(r.Errors))
}
