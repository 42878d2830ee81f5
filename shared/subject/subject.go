package subject

import (
	"strconv"
	"strings"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
)

// Prefix begins every subject.
const Prefix = "sy.v1."

// The outside: request subjects of PROTOCOL.md section 6.
const (
	Push        = Prefix + "push"
	Presence    = Prefix + "presence"
	Kick        = Prefix + "kick"
	GroupJoin   = Prefix + "group.join"
	GroupLeave  = Prefix + "group.leave"
	RealmStats  = Prefix + "realm.stats"
	TicketIssue = Prefix + "ticket.issue"
	Slots       = Prefix + "slots"
	Nodes       = Prefix + "nodes"
	Worlds      = Prefix + "worlds"
)

// Ticketing's calls for the other services.
const (
	TicketRedeem  = Prefix + "ticketing.redeem"
	TicketRelease = Prefix + "ticketing.release"
	TicketKeys    = Prefix + "ticketing.keys"
)

// GatewaysGroupSync is heard by every gateway: "answer for the group push that you saw just
// before this", so that a caller knows when all have spoken.
const GatewaysGroupSync = Prefix + "gateways.group_sync"

// Buckets, streams and what is tied to them.
const (
	BucketCluster = "SY_CLUSTER" // cluster constants: the slot layout
	BucketSlots   = "SY_SLOTS"   // one key a logical slot: its leader
	BucketNodes   = "SY_NODES"   // node leases, with TTL
	BucketKeys    = "SY_KEYS"    // signing keys: ticketing only
	BucketTickets = "SY_TICKETS" // redeemed tickets, with TTL
	StreamEvents  = "SY_EVENTS"

	KeyLayout = "layout" // in BucketCluster

	// EventsAll is what StreamEvents captures.
	EventsAll = Prefix + "event.>"

	// TableSlotsSource and TableSlotsDestination are the RePublish of BucketSlots.
	TableSlotsSource      = "$KV." + BucketSlots + ".*"
	TableSlotsDestination = Prefix + "table.slots.{{wildcard(1)}}"
	TableSlotsAll         = Prefix + "table.slots.*"
)

// Queue groups.
const (
	QueueAuthority   = "authority"
	QueueTicketing   = "ticketing"
	QueueWorldrouter = "worldrouter"
)

// Headers of our own. Those of NATS and of W3C keep their names.
const (
	HeaderErrorCode   = "Nats-Service-Error-Code"
	HeaderError       = "Nats-Service-Error"
	HeaderTTL         = "Nats-TTL"
	HeaderSequence    = "Nats-Sequence"
	HeaderMarker      = "Nats-Marker-Reason"
	HeaderMsgID       = "Nats-Msg-Id"
	HeaderTraceparent = "traceparent"
	HeaderTracestate  = "tracestate"
)

// SlotOp is a call to the leader of one user's hash slot.
type SlotOp string

// The slot calls.
const (
	SlotRegister SlotOp = "register"
	SlotCommit   SlotOp = "commit"
	SlotAbort    SlotOp = "abort"
)

// Slot is the subject of op at the leader of h.
func Slot(h slot.Hash, op SlotOp) string {
	return Prefix + "slot." + strconv.Itoa(int(h)) + "." + string(op)
}

// SlotAll is what the leader of h subscribes to: all calls about users of the hash slot, in order.
func SlotAll(h slot.Hash) string { return Prefix + "slot." + strconv.Itoa(int(h)) + ".>" }

// ParseSlot takes apart what Slot makes.
func ParseSlot(s string) (slot.Hash, SlotOp, bool) {
	rest, ok := strings.CutPrefix(s, Prefix+"slot.")
	num, op, ok2 := strings.Cut(rest, ".")
	h, ok3 := parseHash(num)
	if !ok || !ok2 || !ok3 || op == "" || strings.Contains(op, ".") {
		return 0, "", false
	}
	return h, SlotOp(op), true
}

func parseHash(s string) (slot.Hash, bool) {
	n, err := strconv.ParseUint(s, 10, 8)
	if err != nil || strconv.FormatUint(n, 10) != s {
		return 0, false
	}
	return slot.Hash(n), true
}

// UserOp is a call of a backend about one user.
type UserOp string

// The per-user calls.
const (
	UserPush     UserOp = "push"
	UserPresence UserOp = "presence"
)

// User is the per-user subject that backends use. It fails for a user id that is no plain
// subject token [A-Za-z0-9_=-]; such users are reached through Push and Presence.
func User(uid identity.UID, op UserOp) (string, bool) {
	region, realm, user := uid.Split()
	if !identity.ValidToken(region) || !identity.ValidToken(realm) || !UserToken(user) {
		return "", false
	}
	return Prefix + "user." + region + "." + realm + "." + user + "." + string(op), true
}

// ParseUser takes apart what User makes.
func ParseUser(s string) (identity.UID, UserOp, bool) {
	rest, ok := strings.CutPrefix(s, Prefix+"user.")
	var parts [4]string
	if !ok || !tokens(rest, parts[:]) {
		return "", "", false
	}
	return userParts(parts[0], parts[1], parts[2], parts[3])
}

// UserAll is the wildcard of op over all users: what a server without the mapping delivers.
func UserAll(op UserOp) string { return Prefix + "user.*.*.*." + string(op) }

// SlotUserAll is what the leader of h subscribes to for the per-user calls of op.
func SlotUserAll(h slot.Hash, op UserOp) string {
	return Prefix + "slot." + strconv.Itoa(int(h)) + ".user." + string(op) + ".*.*.*"
}

// SlotUser is the subject to which the server maps User.
func SlotUser(uid identity.UID, op UserOp) (string, bool) {
	region, realm, user := uid.Split()
	if !identity.ValidToken(region) || !identity.ValidToken(realm) || !UserToken(user) {
		return "", false
	}
	return Prefix + "slot." + strconv.Itoa(int(slot.OfUID(uid))) + ".user." + string(op) + "." + region + "." + realm + "." + user, true
}

// ParseSlotUser takes apart what SlotUser makes. A user under another slot than their own is refused.
func ParseSlotUser(s string) (slot.Hash, identity.UID, UserOp, bool) {
	rest, ok := strings.CutPrefix(s, Prefix+"slot.")
	var parts [6]string
	if !ok || !tokens(rest, parts[:]) || parts[1] != "user" {
		return 0, "", "", false
	}
	h, ok := parseHash(parts[0])
	if !ok {
		return 0, "", "", false
	}
	uid, op, ok := userParts(parts[3], parts[4], parts[5], parts[2])
	return h, uid, op, ok && slot.OfUID(uid) == h
}

// tokens splits s into exactly as many tokens as into has room for: each push passes here, and a
// slice made for it would be garbage.
func tokens(s string, into []string) bool {
	for i := range into {
		token, rest, more := strings.Cut(s, ".")
		if more == (i == len(into)-1) {
			return false
		}
		into[i], s = token, rest
	}
	return true
}

func userParts(region, realm, user, op string) (identity.UID, UserOp, bool) {
	if !UserToken(user) || (UserOp(op) != UserPush && UserOp(op) != UserPresence) {
		return "", "", false
	}
	uid, err := identity.NewUID(region, realm, user)
	return uid, UserOp(op), err == nil
}

// UserToken reports whether a user id can stand in a subject: [A-Za-z0-9_=-]+.
func UserToken(s string) bool {
	return s != "" && len(s) <= identity.MaxNameBytes && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '='
	}) < 0
}

// Mapping is one subject mapping of a NATS account.
type Mapping struct{ From, To string }

// Mappings are the account mappings that turn a per-user subject into its slot's, so that a
// plain NATS client reaches the leader in one hop.
func Mappings() []Mapping {
	var out []Mapping
	for _, op := range []UserOp{UserPush, UserPresence} {
		out = append(out, Mapping{
			From: UserAll(op),
			To:   Prefix + "slot.{{partition(256,1,2,3)}}.user." + string(op) + ".{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}",
		})
	}
	return out
}
