package api_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
)

const sid = "0190f5e2-7c1d-7a3b-8c4d-5e6f70819216"

func TestDecodePush(t *testing.T) {
	const body = ` {"users":["eu/main/alice"],"sessions":["` + sid + `"],"groups":["g"],"route":100,
		"payload":{"a":[1,{"users":2}],"b":"}\","},"ack":true,"ack_timeout_ms":50,"exclude_sessions":["` + sid + `"],"message_id":"m","ttl_ms":9} `
	var r api.PushRequest
	if err := api.Decode([]byte(body), &r); err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	p, b64 := r.Bytes()
	if b64 || string(p) != `{"a":[1,{"users":2}],"b":"}\","}` || r.Users[0] != "eu/main/alice" || r.Sessions[0].String() != sid {
		t.Fatalf("%+v", r)
	}
}

func TestDecodeBase64(t *testing.T) {
	var r api.UserPushRequest
	if err := api.Decode([]byte(`{"route":100,"payload_b64":"AAEC"}`), &r); err != nil {
		t.Fatal(err)
	}
	if p, b64 := r.Bytes(); !b64 || string(p) != "\x00\x01\x02" {
		t.Fatalf("%q %v", p, b64)
	}
	var empty api.UserPushRequest
	if err := api.Decode([]byte(`{"route":100,"payload_b64":""}`), &empty); err != nil || empty.Validate() != nil {
		t.Fatal(err, empty.Validate())
	}
	var null api.UserPushRequest
	if err := api.Decode([]byte(`{"route":100,"payload":null}`), &null); err != nil || null.Validate() != nil {
		t.Fatal(err, null.Validate())
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, body := range map[string]string{
		"array":          `[]`,
		"text":           `hello`,
		"half":           `{"route":100`,
		"trailing":       `{"route":100} {}`,
		"unknown":        `{"route":100,"payload":1,"colour":"red"}`,
		"case":           `{"Route":100,"payload":1}`,
		"twice":          `{"route":100,"route":101,"payload":1}`,
		"users for one":  `{"users":["eu/main/a"],"route":100,"payload":1}`,
		"type":           `{"route":"100","payload":1}`,
		"negative":       `{"route":-1,"payload":1}`,
		"not UTF-8":      "{\"route\":100,\"payload\":\"\xff\"}",
		"bad base64":     `{"route":100,"payload_b64":"A"}`,
		"bad session id": `{"route":100,"payload":1,"exclude_sessions":["x"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			var r api.UserPushRequest
			if err := api.Decode([]byte(body), &r); !errors.Is(err, fault.ErrInvalidRequest) {
				t.Fatalf("got %v", err)
			}
		})
	}
	for _, body := range []string{
		`{"identity":{"account_id":"a","user_id":"u","region_id":"eu","realm_id":"main","level":1}}`,
		`{"identity":{"account_id":"a"},"device":{"flag":"app","colour":1}}`, `{"identity":{}} {}`, `{"identity":{}}x`,
	} {
		if err := api.Decode([]byte(body), &api.TicketRequest{}); !errors.Is(err, fault.ErrInvalidRequest) {
			t.Fatalf("%s: got %v", body, err)
		}
	}
	if err := api.Decode(make([]byte, api.MaxRequestBytes+1), &api.EmptyRequest{}); !errors.Is(err, fault.ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
	for _, body := range []string{"", " ", "{}", "\n{ }"} {
		if err := api.Decode([]byte(body), &api.EmptyRequest{}); err != nil {
			t.Fatalf("%q: %v", body, err)
		}
	}
}

// TestRefusalsNameTheField: as the sender wrote it, not as a Go type has it.
func TestRefusalsNameTheField(t *testing.T) {
	const who = `"identity":{"account_id":"a","user_id":"u","region_id":"eu","realm_id":"main"`
	for _, c := range []struct {
		body string
		into any
		says string
	}{
		{`{"route":"100","payload":1}`, &api.PushRequest{}, "route has the wrong type"},
		{`{"users":"x","route":100}`, &api.PushRequest{}, "users has the wrong type"},
		{`{"route":100,"payload_b64":"A"}`, &api.PushRequest{}, "payload_b64 must be a string of standard base64 with padding"},
		{`{"route":100,"payload_b64":"AA\n=="}`, &api.UserPushRequest{}, "payload_b64 must be a string of standard base64 with padding"},
		{`{"route":100,"payload_b64":"AB=="}`, &api.UserPushRequest{}, "payload_b64 must be a string of standard base64 with padding"},
		{`{"route":100,"payload_b64":7}`, &api.UserPushRequest{}, "payload_b64 has the wrong type"},
		{`{"route":100,"sessions":["x"]}`, &api.PushRequest{}, "sessions is malformed"},
		{`{"session_id":"x"}`, &api.KickRequest{}, "session_id is malformed"},
		{`{"users":["eu/main/\ud800"]}`, &api.PresenceRequest{}, "users has half a surrogate pair"},
		{`{"uid":"eu/main/a","reason":"\udc00\ud800"}`, &api.KickRequest{}, "reason has half a surrogate pair"},
		{`{` + who + `,"generation":0}}`, &api.TicketRequest{}, "identity.generation is malformed"},
		{`{` + who + `,"generation":"1"}}`, &api.TicketRequest{}, "identity.generation has the wrong type"},
		{`{` + who + `},"device":{"id":""}}`, &api.TicketRequest{}, "device.id is malformed"},
		{`{` + who + `},"device":{"flag":""}}`, &api.TicketRequest{}, "device.flag is malformed"},
		{`{` + who + `},"device":{"level":""}}`, &api.TicketRequest{}, "device.level is malformed"},
		{`{` + who + `},"device":{"level":"king"}}`, &api.TicketRequest{}, "device.level is malformed"},
		{`{` + who + `},"device":{"id":"\ud83d"}}`, &api.TicketRequest{}, "device has half a surrogate pair"},
	} {
		err := api.Decode([]byte(c.body), c.into)
		if !errors.Is(err, fault.ErrInvalidRequest) || fault.From(err).Message != c.says {
			t.Errorf("%s: %v, want %q", c.body, err, c.says)
		}
	}
	for _, c := range []struct{ body, says string }{
		{`{` + who + `},"device":{"flag":"A"}}`, "device.flag is malformed"},
		{`{"identity":{"account_id":"a","user_id":"u","region_id":"e u","realm_id":"main"}}`, "identity.region_id is malformed"},
	} {
		var r api.TicketRequest
		if err := api.Decode([]byte(c.body), &r); err != nil {
			t.Fatal(err)
		}
		if err := r.Validate(); !errors.Is(err, fault.ErrInvalidRequest) || fault.From(err).Message != c.says {
			t.Errorf("%s: %v, want %q", c.body, err, c.says)
		}
	}
}

// TestSurrogatePairs: whole pairs are characters like any other, and a payload is not looked into.
func TestSurrogatePairs(t *testing.T) {
	var r api.PushRequest
	body := `{"users":["eu/main/\ud83d\ude00","eu/main/\\ud800"],"route":100,"payload":"\ud800"}`
	if err := api.Decode([]byte(body), &r); err != nil {
		t.Fatal(err)
	}
	if r.Users[0] != "eu/main/\U0001f600" || r.Users[1] != `eu/main/\ud800` || string(r.Payload) != `"\ud800"` {
		t.Fatalf("%+v", r)
	}
}

// TestTicketRequestTravels: what a Go caller leaves empty is not written, and reads back as it was.
func TestTicketRequestTravels(t *testing.T) {
	id := identity.Identity{AccountID: "a", UserID: "u", RegionID: "eu", RealmID: "main"}
	for _, want := range []api.TicketRequest{
		{Identity: id},
		{Identity: id, Device: &identity.Device{Flag: "pc"}, Groups: []string{"g-*"}},
		{Identity: id, Device: &identity.Device{ID: "d", Level: identity.LevelMaster}},
	} {
		body, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got api.TicketRequest
		if err := api.Decode(body, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
}

func TestValidate(t *testing.T) {
	many := strings.Repeat(`"eu/main/u",`, api.MaxUsers) + `"eu/main/u"`
	for name, c := range map[string]struct {
		body string
		into interface{ Validate() error }
		want error
	}{
		"no receiver":       {`{"route":100,"payload":1}`, &api.PushRequest{}, fault.ErrInvalidRequest},
		"reserved route":    {`{"users":["eu/main/a"],"route":4,"payload":1}`, &api.PushRequest{}, fault.ErrInvalidRequest},
		"no payload":        {`{"users":["eu/main/a"],"route":100}`, &api.PushRequest{}, fault.ErrInvalidRequest},
		"two payloads":      {`{"users":["eu/main/a"],"route":100,"payload":1,"payload_b64":"AA=="}`, &api.PushRequest{}, fault.ErrInvalidRequest},
		"bad uid":           {`{"users":["alice"],"route":100,"payload":1}`, &api.PushRequest{}, fault.ErrInvalidRequest},
		"bad group":         {`{"groups":["a.b"],"route":100,"payload":1}`, &api.PushRequest{}, fault.ErrInvalidRequest},
		"ack timeout":       {`{"users":["eu/main/a"],"route":100,"payload":1,"ack_timeout_ms":60001}`, &api.PushRequest{}, fault.ErrInvalidRequest},
		"ttl":               {`{"users":["eu/main/a"],"route":100,"payload":1,"ttl_ms":-1}`, &api.PushRequest{}, fault.ErrInvalidRequest},
		"too many users":    {`{"users":[` + many + `],"route":100,"payload":1}`, &api.PushRequest{}, fault.ErrTooLarge},
		"presence of none":  {`{}`, &api.PresenceRequest{}, fault.ErrInvalidRequest},
		"presence":          {`{"users":["eu/main/a"]}`, &api.PresenceRequest{}, nil},
		"kick nobody":       {`{"reason":"x"}`, &api.KickRequest{}, fault.ErrInvalidRequest},
		"kick both":         {`{"uid":"eu/main/a","session_id":"` + sid + `"}`, &api.KickRequest{}, fault.ErrInvalidRequest},
		"kick":              {`{"uid":"eu/main/a","except_session":"` + sid + `"}`, &api.KickRequest{}, nil},
		"kick, long reason": {`{"uid":"eu/main/a","reason":"` + strings.Repeat("x", 257) + `"}`, &api.KickRequest{}, fault.ErrInvalidRequest},
		"join nobody":       {`{"group":"g"}`, &api.GroupRequest{}, fault.ErrInvalidRequest},
		"join":              {`{"group":"g","users":["eu/main/a"]}`, &api.GroupRequest{}, nil},
		"ticket":            {`{"identity":{"account_id":"a","user_id":"u","region_id":"eu","realm_id":"main"}}`, &api.TicketRequest{}, nil},
		"ticket, no realm":  {`{"identity":{"account_id":"a","user_id":"u","region_id":"eu"}}`, &api.TicketRequest{}, fault.ErrInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			if err := api.Decode([]byte(c.body), c.into); err != nil {
				t.Fatal(err)
			}
			if err := c.into.Validate(); !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestReplyForms(t *testing.T) {
	r := api.NewPushReply(true)
	id, err := identity.ParseSessionID(sid)
	if err != nil {
		t.Fatal(err)
	}
	r.Add(api.SessionResult{UID: "eu/main/a", SessionID: id, GatewayID: "g1", Status: api.Acked})
	r.Add(api.SessionResult{UID: "eu/main/a", SessionID: id, GatewayID: "g1", Status: api.Parked})
	got, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	one := `{"uid":"eu/main/a","session_id":"` + sid + `","gateway_id":"g1","status":`
	want := `{"delivered":1,"acked":1,"sessions":[` + one + `"acked"},` + one + `"parked"}],"offline":[],"unknown":[],"errors":[]}`
	if string(got) != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	slots, err := json.Marshal(api.SlotsReply{Slots: []api.Slot{{HashSlots: []int{0, 32}, State: api.SlotNone}}})
	if err != nil || !strings.Contains(string(slots), `"hash_slots":[0,32]`) {
		t.Fatalf("%s %v", slots, err)
	}
	at, err := json.Marshal(api.AtMS(1_700_000_000_000))
	if err != nil || string(at) != `"2023-11-14T22:13:20.000Z"` {
		t.Fatalf("%s %v", at, err)
	}
	var back api.Time
	if err := json.Unmarshal(at, &back); err != nil || back.UnixMilli() != 1_700_000_000_000 {
		t.Fatalf("%v %v", back, err)
	}
}

// FuzzDecodePush checks that what Decode takes is what encoding/json reads, and survives a
// second trip.
func FuzzDecodePush(f *testing.F) {
	f.Add([]byte(`{"users":["eu/main/alice"],"route":100,"payload":{"a":"\"}"}}`))
	f.Add([]byte(`{"sessions":["` + sid + `"],"route":100,"payload_b64":"AA=="}`))
	f.Add([]byte(`{"payload":"\\","route":1,"route":2}`))
	f.Add([]byte(`{"\u0072oute":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r api.PushRequest
		if err := api.Decode(data, &r); err != nil {
			if !errors.Is(err, fault.ErrInvalidRequest) && !errors.Is(err, fault.ErrTooLarge) {
				t.Fatalf("untyped: %v", err)
			}
			return
		}
		out, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if len(out) > api.MaxRequestBytes {
			return
		}
		var again api.PushRequest
		if err := api.Decode(out, &again); err != nil {
			t.Fatalf("%q from %q: %v", out, data, err)
		}
		if (again.Validate() == nil) != (r.Validate() == nil) {
			t.Fatalf("%q validates otherwise than %q", out, data)
		}
	})
}

func BenchmarkDecodePush(b *testing.B) {
	body := []byte(`{"route":100,"payload":{"text":"` + strings.Repeat("x", 200) + `"}}`)
	b.ReportAllocs()
	for b.Loop() {
		var r api.UserPushRequest
		if err := api.Decode(body, &r); err != nil {
			b.Fatal(err)
		}
	}
}
