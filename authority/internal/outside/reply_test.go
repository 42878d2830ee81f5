package outside

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/authority/internal/dispatch"
	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

func result(i int, d wirepb.Delivery) *wirepb.SessionResult {
	id := identity.SessionID{0: byte(i), 1: byte(i >> 8)}
	return &wirepb.SessionResult{Uid: "eu/main/alice", SessionId: id[:], GatewayId: "g1", Delivery: d}
}

// TestMerge: every session once, users in the order of the request and once, and what is not known
// as errors.
func TestMerge(t *testing.T) {
	r := newPushReply(true)
	r.merge(&dispatch.Outcome{
		Sessions: []*wirepb.SessionResult{
			result(1, wirepb.Delivery_DELIVERY_QUEUED), result(2, wirepb.Delivery_DELIVERY_ACKED), result(3, wirepb.Delivery_DELIVERY_ACK_TIMEOUT),
			result(4, wirepb.Delivery_DELIVERY_PARKED), result(5, wirepb.Delivery_DELIVERY_OVERFLOW), result(6, wirepb.Delivery_DELIVERY_STALE),
			result(7, wirepb.Delivery_DELIVERY_NO_ANSWER), result(8, wirepb.Delivery_DELIVERY_UNSPECIFIED), {SessionId: []byte{1}},
			result(1, wirepb.Delivery_DELIVERY_QUEUED), result(2, wirepb.Delivery_DELIVERY_QUEUED), result(9, wirepb.Delivery_DELIVERY_QUEUED),
			result(10, wirepb.Delivery_DELIVERY_QUEUED), result(10, wirepb.Delivery_DELIVERY_ACKED), result(11, wirepb.Delivery_DELIVERY_NO_ANSWER),
		},
		Offline: map[string]bool{"c": true, "a": true}, Unknown: map[string]bool{"b": true},
		Failures: []dispatch.Failure{{UID: "d", Code: fault.Timeout}, {Code: fault.Unavailable}, {UID: "d", Code: fault.Internal}, {Code: fault.Unavailable}},
	}, []identity.UID{"a", "b", "c", "a", "d"})
	var statuses []api.Delivery
	for _, s := range r.Sessions {
		statuses = append(statuses, s.Status)
	}
	if want := []api.Delivery{api.Queued, api.Acked, api.AckTimeout, api.Parked, api.Overflow, api.Stale, api.Queued, api.Acked}; !slices.Equal(statuses, want) {
		t.Fatalf("%v", statuses)
	}
	if r.Delivered != 4 || *r.Acked != 2 || !slices.Equal(r.Offline, []identity.UID{"a", "c"}) || !slices.Equal(r.Unknown, []identity.UID{"b"}) {
		t.Fatalf("%+v", r.PushReply)
	}
	want := []api.UserError{{UID: "eu/main/alice", Code: fault.Timeout}, {UID: "d", Code: fault.Timeout}, {Code: fault.Unavailable}, {Code: fault.Unavailable}}
	if !slices.Equal(r.Errors, want) {
		t.Fatalf("%+v", r.Errors)
	}
}

// TestShorten: a reply that does not fit a message keeps its counts and says that it was cut.
func TestShorten(t *testing.T) {
	nc := natstest.Conn(t, natstest.Server(t).URL())
	o := New(Config{}, nc, nil, nil, Cluster{})
	defer o.Stop(t.Context())
	full := api.NewPushReply(false)
	for i := range int(nc.MaxPayload() / 100) {
		full.Add(api.SessionResult{UID: identity.UID("eu/main/" + strings.Repeat("x", 100)), SessionID: identity.NewSessionID(1), GatewayID: fmt.Sprint(i), Status: api.Queued})
	}
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	o.answer(&request{reply: inbox}, full)
	m, err := sub.NextMsg(10 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var got api.PushReply
	if err := json.Unmarshal(m.Data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Delivered != full.Delivered || len(got.Sessions) == 0 || len(got.Sessions) >= len(full.Sessions) ||
		len(got.Errors) != 1 || got.Errors[0].Code != fault.TooLarge {
		t.Fatalf("%d of %d, %v", len(got.Sessions), len(full.Sessions), got.Errors)
	}
	o.answer(&request{reply: inbox}, &api.PresenceReply{Users: []api.UserPresence{{UID: identity.UID(strings.Repeat("x", int(nc.MaxPayload())))}}})
	if m, err = sub.NextMsg(10 * time.Second); err != nil || fault.FromMsg(m) == nil || fault.FromMsg(m).Code != fault.TooLarge {
		t.Fatal(m, err)
	}
	o.answer(&request{}, full) // fire and forget
	o.fail(&request{}, fault.ErrInternal)
}

// TestWirePush: times are counted from the request, and the default is 3 s for an acknowledgement.
func TestWirePush(t *testing.T) {
	now := time.UnixMilli(1000)
	id := identity.NewSessionID(1)
	p := wirePush(&api.Message{Route: 7, Payload: []byte("1"), Ack: true, TTLMS: 5, ExcludeSessions: []identity.SessionID{id}, MessageID: "m"}, now)
	if p.AckDeadlineMs != 4000 || p.ExpiresMs != 1005 || p.Base64 || string(p.Payload) != "1" || p.MessageId != "m" || identity.SessionID(p.ExcludeSessions[0]) != id {
		t.Fatalf("%v", p)
	}
	p = wirePush(&api.Message{PayloadB64: []byte{}, AckTimeoutMS: 9}, now)
	if !p.Base64 || p.AckDeadlineMs != 0 || p.ExpiresMs != 0 {
		t.Fatalf("%v", p)
	}
}

// TestOverlaps: only a request that may mean a session twice needs a message id of its own.
func TestOverlaps(t *testing.T) {
	u, s := []identity.UID{"a"}, []identity.SessionID{{1}}
	for _, c := range []struct {
		r    api.PushRequest
		want bool
	}{
		{api.PushRequest{Users: u}, false}, {api.PushRequest{Sessions: s}, false}, {api.PushRequest{Groups: []string{"g"}}, false},
		{api.PushRequest{Users: u, Sessions: s}, true}, {api.PushRequest{Groups: []string{"g", "h"}}, true}, {api.PushRequest{Users: u, Groups: []string{"g"}}, true},
	} {
		if overlaps(&c.r) != c.want {
			t.Errorf("%+v", c.r)
		}
	}
}
