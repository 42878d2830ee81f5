package subject_test

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must drops the second result of a builder that cannot fail here.
func must(s string, ok bool) string {
	if !ok {
		return "refused"
	}
	return s
}

// TestGolden pins what is on the wire: other versions and programs outside speak it.
func TestGolden(t *testing.T) {
	const alice = identity.UID("eu/main/alice")
	for _, c := range []struct{ got, want string }{
		{subject.Push, "sy.v1.push"},
		{subject.Presence, "sy.v1.presence"},
		{subject.Kick, "sy.v1.kick"},
		{subject.GroupJoin, "sy.v1.group.join"},
		{subject.GroupLeave, "sy.v1.group.leave"},
		{subject.RealmStats, "sy.v1.realm.stats"},
		{subject.TicketIssue, "sy.v1.ticket.issue"},
		{subject.Slots, "sy.v1.slots"},
		{subject.Nodes, "sy.v1.nodes"},
		{subject.Worlds, "sy.v1.worlds"},
		{subject.TicketRedeem, "sy.v1.ticketing.redeem"},
		{subject.TicketRelease, "sy.v1.ticketing.release"},
		{subject.TicketKeys, "sy.v1.ticketing.keys"},
		{subject.GatewaysGroupSync, "sy.v1.gateways.group_sync"},
		{subject.Slot(0, subject.SlotRegister), "sy.v1.slot.0.register"},
		{subject.Slot(255, subject.SlotCommit), "sy.v1.slot.255.commit"},
		{subject.Slot(22, subject.SlotAbort), "sy.v1.slot.22.abort"},
		{must(subject.User(alice, subject.UserPush)), "sy.v1.user.eu.main.alice.push"},
		{must(subject.User(alice, subject.UserPresence)), "sy.v1.user.eu.main.alice.presence"},
		{must(subject.User("eu/main/a.b", subject.UserPush)), "refused"},
		{must(subject.User("eu/main/a/b", subject.UserPush)), "refused"},
		{must(subject.User("eu/main/*", subject.UserPush)), "refused"},
		{must(subject.SlotUser(alice, subject.UserPush)), "sy.v1.slot.22.user.push.eu.main.alice"},
		{must(subject.SlotUser("eu/main/>", subject.UserPush)), "refused"},
		{subject.UserAll(subject.UserPush), "sy.v1.user.*.*.*.push"},
		{subject.SlotUserAll(22, subject.UserPresence), "sy.v1.slot.22.user.presence.*.*.*"},
		{subject.SlotAll(22), "sy.v1.slot.22.>"},
		{subject.AuthorityAll("a-1", "b0"), "sy.v1.authority.a-1.b0.*"},
		{subject.Authority("a-1", "b0", subject.AuthorityTouch), "sy.v1.authority.a-1.b0.touch"},
		{subject.Authority("a-1", "b0", subject.AuthorityUnregister), "sy.v1.authority.a-1.b0.unregister"},
		{subject.Authority("a-1", "b0", subject.AuthorityRestore), "sy.v1.authority.a-1.b0.restore"},
		{subject.Authority("a-1", "b0", subject.AuthorityEndpoints), "sy.v1.authority.a-1.b0.endpoints"},
		{subject.Authority("a-1", "b0", subject.AuthorityPush), "sy.v1.authority.a-1.b0.push"},
		{subject.Authority("a-1", "b0", subject.AuthorityAct), "sy.v1.authority.a-1.b0.act"},
		{subject.Owner("g-1", "b0", subject.OwnerPush), "sy.v1.owner.g-1.b0.push"},
		{subject.Owner("g-1", "b0", subject.OwnerAction), "sy.v1.owner.g-1.b0.action"},
		{subject.Group("room_1"), "sy.v1.group.room_1.push"},
		{subject.Beacon("gateway", "g-1", "b0"), "sy.v1.beacon.gateway.g-1.b0"},
		{subject.BeaconAll, "sy.v1.beacon.*.*.*"},
		{subject.Probe("gateway", "g-1", "b0"), "sy.v1.node.gateway.g-1.b0.probe"},
		{subject.TableSlot(31), "sy.v1.table.slots.31"},
		{subject.TableSlotsSource, "$KV.SY_SLOTS.*"},
		{subject.TableSlotsDestination, "sy.v1.table.slots.{{wildcard(1)}}"},
		{subject.KVSubject(subject.BucketSlots, subject.SlotKey(7)), "$KV.SY_SLOTS.7"},
		{subject.Event("user", "online", "eu", "main"), "sy.v1.event.user.online.eu.main"},
		{subject.EventsAll, "sy.v1.event.>"},
		{subject.StreamEvents, "SY_EVENTS"},
		{subject.BucketCluster, "SY_CLUSTER"},
		{subject.BucketSlots, "SY_SLOTS"},
		{subject.BucketNodes, "SY_NODES"},
		{subject.BucketKeys, "SY_KEYS"},
		{subject.BucketTickets, "SY_TICKETS"},
		{subject.QueueAuthority, "authority"},
		{subject.QueueTicketing, "ticketing"},
		{subject.QueueWorldrouter, "worldrouter"},
		{subject.HeaderErrorCode, "Nats-Service-Error-Code"},
		{subject.HeaderError, "Nats-Service-Error"},
		{subject.HeaderTTL, "Nats-TTL"},
		{subject.HeaderMsgID, "Nats-Msg-Id"},
		{subject.HeaderTraceparent, "traceparent"},
		{subject.HeaderTracestate, "tracestate"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestMappingsAreThoseOfTheProtocol(t *testing.T) {
	want := []subject.Mapping{
		{From: "sy.v1.user.*.*.*.push", To: "sy.v1.slot.{{partition(256,1,2,3)}}.user.push.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}"},
		{From: "sy.v1.user.*.*.*.presence", To: "sy.v1.slot.{{partition(256,1,2,3)}}.user.presence.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}"},
	}
	got := subject.Mappings()
	if len(got) != len(want) {
		t.Fatalf("%d mappings", len(got))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
}

// TestParsersRefuse lists near misses: each parser must say no to all of them.
func TestParsersRefuse(t *testing.T) {
	for _, s := range []string{
		"", "sy.v1.", "sy.v1.slot", "sy.v1.slot.", "sy.v1.slot.22", "sy.v1.slot.22.", "sy.v1.slot.022.register", "sy.v1.slot.256.register",
		"sy.v1.slot.-1.register", "sy.v1.slot.+1.register", "sy.v1.slot.22.register.more", "xsy.v1.slot.22.register",
		"sy.v1.slot.23.user.push.eu.main.alice", // somebody else's slot
		"sy.v1.slot.22.user.kick.eu.main.alice", "sy.v1.slot.22.user.push.eu.main", "sy.v1.slot.22.user.push.eu.main.alice.x",
		"sy.v1.user.eu.main.alice", "sy.v1.user.eu.main.alice.kick", "sy.v1.user..main.alice.push", "sy.v1.user.eu.main..push",
		"sy.v1.authority.a.b", "sy.v1.authority.a.b.", "sy.v1.authority..b.push", "sy.v1.authority.a..push", "sy.v1.authority.a.b.push.x",
		"sy.v1.owner.g", "sy.v1.owner.g.*", "sy.v1.owner.*.b.push", "sy.v1.owner.g.>.push",
		"sy.v1.group.join", "sy.v1.group.push", "sy.v1.group..push", "sy.v1.group.a.b.push", "sy.v1.group.a*.push",
		"sy.v1.table.slots.", "sy.v1.table.slots.256", "sy.v1.table.slots.01", "sy.v1.table.slots.-1", "sy.v1.table.slots.*",
	} {
		for name, took := range parsers(s) {
			if took {
				t.Errorf("%s takes %q", name, s)
			}
		}
	}
}

func parsers(s string) map[string]bool {
	_, _, slotOK := subject.ParseSlot(s)
	_, _, _, slotUserOK := subject.ParseSlotUser(s)
	_, _, userOK := subject.ParseUser(s)
	_, _, _, authorityOK := subject.ParseAuthority(s)
	_, _, _, ownerOK := subject.ParseOwner(s)
	_, groupOK := subject.ParseGroup(s)
	_, tableOK := subject.ParseTableSlot(s)
	return map[string]bool{"slot": slotOK, "slot user": slotUserOK, "user": userOK, "authority": authorityOK,
		"owner": ownerOK, "group": groupOK, "table": tableOK}
}

// FuzzParse: what a parser takes, its builder makes again, byte for byte; and no subject is taken
// by two parsers.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		subject.Slot(22, subject.SlotRegister), "sy.v1.slot.22.user.push.eu.main.alice", "sy.v1.user.eu.main.a=b-c_d.presence",
		subject.Authority("a-1", "b0", subject.AuthorityPush), subject.Owner("g", "b", subject.OwnerAction),
		subject.Group("room"), subject.TableSlot(0), "sy.v1.slot.255.x", "sy.v1.user.....push", "sy.v1.owner.g.b.*",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		taken := 0
		check := func(again string, ok bool) {
			if !ok {
				return
			}
			taken++
			if again != s {
				t.Fatalf("%q parsed, and built again as %q", s, again)
			}
		}
		if h, op, ok := subject.ParseSlot(s); ok {
			check(subject.Slot(h, op), true)
		}
		if h, uid, op, ok := subject.ParseSlotUser(s); ok {
			if h != slot.OfUID(uid) {
				t.Fatalf("%q: %s is not in slot %d", s, uid, h)
			}
			check(subject.SlotUser(uid, op))
		}
		if uid, op, ok := subject.ParseUser(s); ok {
			check(subject.User(uid, op))
		}
		if n, b, op, ok := subject.ParseAuthority(s); ok {
			check(subject.Authority(n, b, op), true)
		}
		if n, b, op, ok := subject.ParseOwner(s); ok {
			check(subject.Owner(n, b, op), true)
		}
		if g, ok := subject.ParseGroup(s); ok {
			check(subject.Group(g), true)
		}
		if id, ok := subject.ParseTableSlot(s); ok {
			check(subject.TableSlot(id), true)
		}
		if taken > 1 {
			t.Fatalf("%q is taken by %d parsers", s, taken)
		}
	})
}

// FuzzUser: what can be built for a user is taken apart to the same user, on one subject token each.
func FuzzUser(f *testing.F) {
	f.Add("eu", "main", "alice")
	f.Add("eu", "main", "a.b")
	f.Add("", "x", "*")
	f.Fuzz(func(t *testing.T, region, realm, user string) {
		uid := identity.UID(region + "/" + realm + "/" + user)
		s, ok := subject.User(uid, subject.UserPush)
		mapped, ok2 := subject.SlotUser(uid, subject.UserPush)
		if ok != ok2 {
			t.Fatalf("%q: one subject and not the other", uid)
		}
		if !ok {
			return
		}
		if strings.Count(s, ".") != 6 || strings.ContainsAny(s, "*> \t\r\n") {
			t.Fatalf("%q makes the subject %q", uid, s)
		}
		got, op, ok := subject.ParseUser(s)
		h, got2, op2, ok2 := subject.ParseSlotUser(mapped)
		if !ok || !ok2 || got != uid || got2 != uid || op != subject.UserPush || op2 != op || h != slot.OfUID(uid) {
			t.Fatalf("%q came back as %q and %q in slot %d", uid, got, got2, h)
		}
	})
}

func BenchmarkParseSlotUser(b *testing.B) {
	s, _ := subject.SlotUser("eu/main/alice", subject.UserPush)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, _, ok := subject.ParseSlotUser(s); !ok {
			b.Fatal(s)
		}
	}
}
