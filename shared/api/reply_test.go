package api_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
)

func TestPushReplyIsWrittenAsEncodingJSONWould(t *testing.T) {
	uids := rapid.SliceOfN(rapid.Map(rapid.String(), func(s string) identity.UID { return identity.UID(s) }), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		r := api.NewPushReply(rapid.Bool().Draw(t, "ack"))
		for _, u := range uids.Draw(t, "sessions") {
			r.Add(api.SessionResult{UID: u, SessionID: identity.NewSessionID(7), GatewayID: rapid.String().Draw(t, "gateway"),
				Status: rapid.SampledFrom([]api.Delivery{api.Queued, api.Acked, api.Stale}).Draw(t, "status")})
		}
		r.Offline = append(r.Offline, uids.Draw(t, "offline")...)
		if rapid.Bool().Draw(t, "nil") {
			r.Unknown = nil
		}
		for _, u := range uids.Draw(t, "errors") {
			r.Errors = append(r.Errors, api.UserError{UID: u, Code: fault.Timeout})
		}
		want, err := json.Marshal(r)
		if got := r.AppendJSON(nil); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s\nwant\n%s %v", got, want, err)
		}
	})
}

func BenchmarkPushReply(b *testing.B) {
	r := api.NewPushReply(false)
	r.Add(api.SessionResult{UID: "eu/main/alice", SessionID: identity.NewSessionID(22), GatewayID: "gw-1", Status: api.Queued})
	b.ReportAllocs()
	for b.Loop() {
		_ = r.AppendJSON(make([]byte, 0, r.JSONBytes()))
	}
}
