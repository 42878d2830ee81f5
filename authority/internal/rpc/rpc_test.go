package rpc_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/authority/internal/delivery"
	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/authority/internal/leader"
	"github.com/switchyard-io/switchyard/authority/internal/rpc"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/leadership"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/slot"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

const alice identity.UID = "eu/main/alice"

// rig is a server that leads all slots at term 1 and knows of term 9 elsewhere.
type rig struct {
	t      *testing.T
	nc     *nats.Conn
	node   lifecycle.Node
	entry  leadership.Entry
	leader *leader.Leader
	server *rpc.Server
	users  chan *nats.Msg
}

func (r *rig) User(_ identity.UID, _ subject.UserOp, m *nats.Msg) { r.users <- m }

func newRig(t *testing.T) *rig {
	t.Helper()
	nc := natstest.Conn(t, natstest.Server(t).URL())
	layout := slot.Layout{Logical: 1, ConfigEpoch: 1}
	r := &rig{t: t, nc: nc, node: lifecycle.NewNode(lifecycle.Authority, "a1"), users: make(chan *nats.Msg, 100)}
	r.entry = leadership.Entry{Leader: leadership.Owner{Node: "a1", Boot: r.node.Boot}, Term: 1, ConfigEpoch: 1}
	dir, err := directory.New(directory.Config{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	caller, err := natsconn.NewCaller(nc, 100)
	if err != nil {
		t.Fatal(err)
	}
	links := delivery.New(delivery.Config{}, caller)
	r.leader = leader.New(leader.Config{}, layout, dir, links, func(slot.ID) (leadership.Entry, bool) { return r.entry, true })
	elsewhere := func(h slot.Hash) (slot.Target, bool) {
		return slot.Target{Hash: h, LeaderNode: "a2", LeaderBoot: "b", Term: 9, ConfigEpoch: 1}, true
	}
	r.server = rpc.New(rpc.Config{Workers: 2}, r.node, nc, r.leader, elsewhere)
	if err := r.server.Start(layout, r); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.server.Stop(); links.Close(); caller.Close() })
	return r
}

func (r *rig) open() {
	r.t.Helper()
	if err := r.leader.Open(0, r.entry, true, nil, time.Now()); err != nil {
		r.t.Fatal(err)
	}
	if err := r.server.Open(0); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) batch(op subject.AuthorityOp) string { return subject.Authority("a1", r.node.Boot, op) }

type message interface {
	MarshalVT() ([]byte, error)
	UnmarshalVT([]byte) error
	Reset()
}

func (r *rig) call(subj string, req, reply message) {
	r.t.Helper()
	data, err := req.MarshalVT()
	if err != nil {
		r.t.Fatal(err)
	}
	m, err := r.nc.Request(subj, data, 10*time.Second)
	if err != nil {
		r.t.Fatalf("%s: %v", subj, err)
	}
	reply.Reset() // UnmarshalVT adds to what is there
	if err := reply.UnmarshalVT(m.Data); err != nil {
		r.t.Fatal(err)
	}
}

func soon() int64 { return time.Now().Add(time.Minute).UnixMilli() }

func (r *rig) target() *wirepb.Target {
	return wire.Target(r.entry.Target(slot.OfUID(alice), 0))
}

func route(id identity.SessionID) *wirepb.Route {
	return &wirepb.Route{Uid: string(alice), GatewayId: "g1", BootId: "b1", SessionId: id[:], DeviceId: "phone", DeviceFlag: "app",
		DeviceLevel: wirepb.Level_LEVEL_MASTER, Listener: "ws", OwnerSeq: 1, ConnectedAtMs: 5, LastActiveMs: 6}
}

// TestLifeOfASession: register, commit, endpoints, touch, unregister, touch again.
func TestLifeOfASession(t *testing.T) {
	r := newRig(t)
	r.open()
	h := slot.OfUID(alice)
	id := identity.NewSessionID(uint8(h))
	var reg wirepb.RegisterReply
	r.call(subject.Slot(h, subject.SlotRegister), &wirepb.RegisterRequest{Target: r.target(), Route: route(id), DeadlineMs: soon()}, &reg)
	if reg.Status != wirepb.Status_STATUS_OK || len(reg.Conflicts) != 0 {
		t.Fatal(&reg)
	}
	var com wirepb.CommitReply
	commit := &wirepb.CommitRequest{Target: r.target(), Candidate: reg.Candidate, SessionId: id[:], DeadlineMs: soon()}
	for range 2 { // a repeat is harmless
		r.call(subject.Slot(h, subject.SlotCommit), commit, &com)
		if com.Status != wirepb.Status_STATUS_OK {
			t.Fatal(&com)
		}
	}
	var ends wirepb.EndpointsReply
	r.call(r.batch(subject.AuthorityEndpoints), &wirepb.EndpointsRequest{DeadlineMs: soon(), Groups: []*wirepb.UserGroup{{Target: r.target(), Uids: []string{string(alice)}, SessionIds: [][]byte{id[:]}}}}, &ends)
	if len(ends.Groups) != 1 || len(ends.Groups[0].Users) != 2 {
		t.Fatal(&ends)
	}
	for _, u := range ends.Groups[0].Users {
		if want := route(id); u.Presence != wirepb.Presence_PRESENCE_ONLINE || len(u.Routes) != 1 || u.Routes[0].String() != want.String() {
			t.Fatalf("%v, want %v", u, want)
		}
	}
	// A second master of the flag conflicts, and a commit without confirmation says so.
	id2 := identity.NewSessionID(uint8(h))
	r.call(subject.Slot(h, subject.SlotRegister), &wirepb.RegisterRequest{Target: r.target(), Route: route(id2), DeadlineMs: soon()}, &reg)
	if reg.Status != wirepb.Status_STATUS_OK || len(reg.Conflicts) != 1 {
		t.Fatal(&reg)
	}
	r.call(subject.Slot(h, subject.SlotCommit), &wirepb.CommitRequest{Target: r.target(), Candidate: reg.Candidate, SessionId: id2[:], DeadlineMs: soon()}, &com)
	if com.Status != wirepb.Status_STATUS_CONFLICT || len(com.Conflicts) != 1 {
		t.Fatal(&com)
	}
	var abort wirepb.AbortReply
	r.call(subject.Slot(h, subject.SlotAbort), &wirepb.AbortRequest{Target: r.target(), Candidate: reg.Candidate, DeadlineMs: soon()}, &abort)
	if abort.Status != wirepb.Status_STATUS_OK {
		t.Fatal(&abort)
	}
	r.call(subject.Slot(h, subject.SlotCommit), &wirepb.CommitRequest{Target: r.target(), Candidate: reg.Candidate, SessionId: id2[:], DeadlineMs: soon()}, &com)
	if com.Status != wirepb.Status_STATUS_EXPIRED {
		t.Fatal(&com)
	}
	r.unregister(t, id)
}

// unregister ends the session and checks that it stays ended (I4).
func (r *rig) unregister(t *testing.T, id identity.SessionID) {
	t.Helper()
	batch := func(seq uint64) *wirepb.SessionBatch {
		return &wirepb.SessionBatch{GatewayId: "g1", BootId: "b1", DeadlineMs: soon(), Groups: []*wirepb.SessionGroup{{
			Target: r.target(), Sessions: []*wirepb.SessionSeq{{SessionId: id[:], OwnerSeq: seq, Uid: string(alice), LastActiveMs: 7}}}}}
	}
	var reply wirepb.SessionBatchReply
	r.call(r.batch(subject.AuthorityTouch), batch(2), &reply)
	if len(reply.Groups) != 1 || reply.Groups[0].Status != wirepb.Status_STATUS_OK || len(reply.Groups[0].Missing) != 0 {
		t.Fatal(&reply)
	}
	r.call(r.batch(subject.AuthorityUnregister), batch(3), &reply)
	if reply.Groups[0].Status != wirepb.Status_STATUS_OK {
		t.Fatal(&reply)
	}
	h := slot.OfUID(alice)
	var reg wirepb.RegisterReply
	r.call(subject.Slot(h, subject.SlotRegister), &wirepb.RegisterRequest{Target: r.target(), Route: route(id), DeadlineMs: soon()}, &reg)
	if reg.Status != wirepb.Status_STATUS_FENCED {
		t.Fatal(&reg)
	}
	unknown := identity.NewSessionID(uint8(h))
	b := batch(1)
	b.Groups[0].Sessions[0].SessionId = unknown[:]
	r.call(r.batch(subject.AuthorityTouch), b, &reply)
	if len(reply.Groups[0].Missing) != 1 || identity.SessionID(reply.Groups[0].Missing[0]) != unknown {
		t.Fatal(&reply)
	}
	var res wirepb.RestoreReply
	r.call(r.batch(subject.AuthorityRestore), &wirepb.RestoreRequest{GatewayId: "g1", BootId: "b1", DeadlineMs: soon(),
		Groups: []*wirepb.RestoreGroup{{Target: r.target(), Routes: []*wirepb.Route{route(unknown)}, Complete: true}}}, &res)
	if len(res.Groups) != 1 || res.Groups[0].Status != wirepb.Status_STATUS_OK || len(res.Groups[0].Close) != 0 {
		t.Fatal(&res)
	}
}

// TestI3_NotLeader: on its own subject a node that leads nothing says who does; a bad group does
// not harm its siblings.
func TestI3_NotLeader(t *testing.T) {
	r := newRig(t)
	groups := []*wirepb.UserGroup{{Target: r.target(), Uids: []string{string(alice)}}}
	var push wirepb.AuthorityPushReply
	r.call(r.batch(subject.AuthorityPush), &wirepb.AuthorityPushRequest{Push: &wirepb.Push{Route: 100}, Groups: groups, DeadlineMs: soon()}, &push)
	if len(push.Groups) != 1 || push.Groups[0].Status != wirepb.Status_STATUS_NOT_LEADER || push.Groups[0].Current.GetLeaderTerm() != 9 {
		t.Fatal(&push)
	}
	r.open()
	other := wire.Target(r.entry.Target(slot.OfUID(alice)+1, 0))
	groups = append(groups, nil, &wirepb.UserGroup{Target: other, Uids: []string{string(alice)}}, &wirepb.UserGroup{Target: r.target(), SessionIds: [][]byte{{1}}})
	r.call(r.batch(subject.AuthorityPush), &wirepb.AuthorityPushRequest{Push: &wirepb.Push{Route: 100}, Groups: groups, DeadlineMs: soon()}, &push)
	if len(push.Groups) != 4 || push.Groups[0].Status != wirepb.Status_STATUS_OK || len(push.Groups[0].Offline) != 1 {
		t.Fatal(&push)
	}
	for _, g := range push.Groups[1:] {
		if g.Status != wirepb.Status_STATUS_INVALID {
			t.Fatal(&push)
		}
	}
	var act wirepb.AuthorityActReply
	r.call(r.batch(subject.AuthorityAct), &wirepb.AuthorityActRequest{Groups: groups[:2], Kind: wirepb.ActionKind_ACTION_KIND_KICK, DeadlineMs: soon()}, &act)
	if len(act.Groups) != 2 || act.Groups[0].Status != wirepb.Status_STATUS_OK || act.Groups[1].Status != wirepb.Status_STATUS_INVALID {
		t.Fatal(&act)
	}
	r.call(r.batch(subject.AuthorityAct), &wirepb.AuthorityActRequest{DeadlineMs: soon()}, &act)
	if len(act.Groups) != 0 {
		t.Fatal(&act)
	}
}

// TestGarbage: what no version of ours sends is counted, and nothing falls over.
func TestGarbage(t *testing.T) {
	r := newRig(t)
	r.open()
	var subjects []string
	for _, op := range []subject.AuthorityOp{"touch", "unregister", "restore", "endpoints", "push", "act", "other"} {
		subjects = append(subjects, r.batch(op))
	}
	for _, op := range []subject.SlotOp{"register", "commit", "abort", "other"} {
		subjects = append(subjects, subject.Slot(3, op))
	}
	for _, s := range subjects {
		if err := r.nc.Publish(s, []byte{0xff, 0xff}); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Eventually(t, 10*time.Second, "all are counted", func() bool { return r.server.Counts().Invalid == int64(len(subjects)) })
	id := identity.NewSessionID(uint8(slot.OfUID(alice)))
	for _, edit := range []func(*wirepb.Route){
		func(r *wirepb.Route) { r.SessionId = r.SessionId[:3] }, func(r *wirepb.Route) { r.Uid = "alice" },
		func(r *wirepb.Route) { r.GatewayId = "a.b" }, func(r *wirepb.Route) { r.BootId = "" },
		func(r *wirepb.Route) { r.DeviceFlag = "A!" }, func(r *wirepb.Route) { r.Uid = "eu/main/bob" },
	} {
		x := route(id)
		edit(x)
		var reg wirepb.RegisterReply
		r.call(subject.Slot(slot.OfUID(alice), subject.SlotRegister), &wirepb.RegisterRequest{Target: r.target(), Route: x, DeadlineMs: soon()}, &reg)
		if reg.Status != wirepb.Status_STATUS_INVALID {
			t.Errorf("%v: %v", x, &reg)
		}
	}
}

// TestQuiesce: calls that have arrived are served before it returns, and none afterwards.
func TestQuiesce(t *testing.T) {
	r := newRig(t)
	r.open()
	to, ok := subject.SlotUser(alice, subject.UserPush)
	if !ok {
		t.Fatal("no subject")
	}
	for range 50 {
		if err := r.nc.Publish(to, nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.server.Quiesce(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if n := len(r.users); n != 50 {
		t.Fatalf("%d of 50 served", n)
	}
	if _, err := r.nc.Request(to, nil, 10*time.Second); !errors.Is(err, nats.ErrNoResponders) {
		t.Fatal(err)
	}
	if err := r.server.Open(0); err != nil {
		t.Fatal(err)
	}
	if err := r.nc.Publish(to, nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.users:
	case <-ctx.Done():
		t.Fatal("not heard after opening again")
	}
}
