package subject

import (
	"strconv"
	"strings"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
)

// AuthorityOp is a batch call to one life of one authority node.
type AuthorityOp string

// The authority batch calls.
const (
	AuthorityTouch      AuthorityOp = "touch"
	AuthorityUnregister AuthorityOp = "unregister"
	AuthorityRestore    AuthorityOp = "restore"
	AuthorityEndpoints  AuthorityOp = "endpoints"
	AuthorityPush       AuthorityOp = "push"
	AuthorityAct        AuthorityOp = "act" // owner actions for users and sessions: kick, group join, leave
)

// Authority is the subject of op at one life of an authority node.
func Authority(node, boot string, op AuthorityOp) string {
	return Prefix + "authority." + node + "." + boot + "." + string(op)
}

// AuthorityAll is what one life of an authority node subscribes to.
func AuthorityAll(node, boot string) string { return Prefix + "authority." + node + "." + boot + ".*" }

// ParseAuthority takes apart what Authority makes.
func ParseAuthority(s string) (node, boot string, op AuthorityOp, ok bool) {
	node, boot, tail, ok := nodeParts(s, Prefix+"authority.")
	return node, boot, AuthorityOp(tail), ok
}

// OwnerOp is a call to one life of one gateway.
type OwnerOp string

// The owner calls.
const (
	OwnerPush   OwnerOp = "push"
	OwnerAction OwnerOp = "action"
)

// Owner is the subject of op at one life of a gateway: what is meant for a dead life reaches nobody.
func Owner(gateway, boot string, op OwnerOp) string {
	return Prefix + "owner." + gateway + "." + boot + "." + string(op)
}

// ParseOwner takes apart what Owner makes.
func ParseOwner(s string) (gateway, boot string, op OwnerOp, ok bool) {
	gateway, boot, tail, ok := nodeParts(s, Prefix+"owner.")
	return gateway, boot, OwnerOp(tail), ok
}

func nodeParts(s, prefix string) (node, boot, tail string, ok bool) {
	rest, ok := strings.CutPrefix(s, prefix)
	parts := strings.Split(rest, ".")
	if !ok || len(parts) != 3 || !identity.ValidNode(parts[0]) || !identity.ValidNode(parts[1]) || parts[2] == "" {
		return "", "", "", false
	}
	return parts[0], parts[1], parts[2], true
}

// Group is the fan-out subject of a group. The name must be valid (identity.ValidGroup).
// A trailing token keeps a group named "join" apart from the call of that name.
func Group(name string) string { return Prefix + "group." + name + ".push" }

// ParseGroup takes apart what Group makes.
func ParseGroup(s string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(s, Prefix+"group.")
	name, ok2 := strings.CutSuffix(rest, ".push")
	return name, ok && ok2 && identity.ValidGroup(name)
}

// Inbox is where replies to a service come: not below "_INBOX", which every client may read.
func Inbox(service string) string { return "_SY_INBOX." + service }

// Beacon is where one life of a node says that it lives.
func Beacon(service, node, boot string) string {
	return Prefix + "beacon." + service + "." + node + "." + boot
}

// BeaconAll hears every beacon.
const BeaconAll = Prefix + "beacon.*.*.*"

// Probe is the private subject of one life of a node; "no responders" there means that its
// process or its connection is gone.
func Probe(service, node, boot string) string {
	return Prefix + "node." + service + "." + node + "." + boot + ".probe"
}

// TableSlot is where a change of a logical slot's record is republished.
func TableSlot(id slot.ID) string { return Prefix + "table.slots." + SlotKey(id) }

// ParseTableSlot takes apart what TableSlot makes.
func ParseTableSlot(s string) (slot.ID, bool) {
	key, ok := strings.CutPrefix(s, Prefix+"table.slots.")
	if !ok {
		return 0, false
	}
	return ParseSlotKey(key)
}

// SlotKey is the key of a logical slot in BucketSlots.
func SlotKey(id slot.ID) string { return strconv.Itoa(int(id)) }

// ParseSlotKey takes apart what SlotKey makes.
func ParseSlotKey(key string) (slot.ID, bool) {
	n, err := strconv.ParseUint(key, 10, 16)
	if err != nil || n >= slot.Count || SlotKey(slot.ID(n)) != key {
		return 0, false
	}
	return slot.ID(n), true
}

// KVSubject is the subject under which JetStream stores a key of a bucket.
func KVSubject(bucket, key string) string { return "$KV." + bucket + "." + key }

// KVStream is the stream behind a bucket.
func KVStream(bucket string) string { return "KV_" + bucket }

// StreamMessageGet is the JetStream call that reads a message through the stream's leader, never
// from a follower that is behind.
func StreamMessageGet(stream string) string { return "$JS.API.STREAM.MSG.GET." + stream }

// StreamDirectGet is the JetStream call that reads messages from any replica: it may be behind.
func StreamDirectGet(stream string) string { return "$JS.API.DIRECT.GET." + stream }

// Event is the subject of an event: kind "user" or "session".
func Event(kind, what, region, realm string) string {
	return Prefix + "event." + kind + "." + what + "." + region + "." + realm
}
