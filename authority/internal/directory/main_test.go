package directory

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// epoch is the start of every test's time.
var epoch = time.Unix(1_700_000_000, 0)

const testHash slot.Hash = 22

func target(term uint64) slot.Target {
	return targetOf(testHash, term)
}

func targetOf(h slot.Hash, term uint64) slot.Target {
	return slot.Target{Hash: h, ID: slot.ID(h % 32), LeaderNode: "a1", LeaderBoot: "b1", Term: term, ConfigEpoch: 1}
}

// usersIn returns n users of a hash slot.
func usersIn(h slot.Hash, n int) []identity.UID {
	out := make([]identity.UID, 0, n)
	for i := 0; len(out) < n; i++ {
		if u := identity.UID(fmt.Sprintf("eu/main/user-%d", i)); slot.OfUID(u) == h {
			out = append(out, u)
		}
	}
	return out
}

// sessionID returns the n-th session of a hash slot.
func sessionID(h slot.Hash, n int) (id identity.SessionID) {
	binary.BigEndian.PutUint32(id[:], uint32(n))
	id[6] = 0x70
	id[15] = uint8(h)
	return id
}

func owner(n int) Owner { return Owner{fmt.Sprintf("gw-%d", n), fmt.Sprintf("boot-%d", n)} }

func app(id string, level identity.Level) identity.Device {
	return identity.Device{ID: id, Flag: "app", Level: level}
}

// route makes session n of a user at an owner, at sequence 1.
func route(u identity.UID, n int, o Owner, d identity.Device) Route {
	return Route{
		UID: u, Gateway: o.Gateway, Boot: o.Boot, Session: sessionID(slot.OfUID(u), n), Device: d, Listener: "ws",
		OwnerSeq: 1, ConnectedAt: epoch.UnixMilli() + int64(n), LastActive: epoch.UnixMilli() + int64(n),
	}
}

func open(t testing.TB, cfg Config, awaited ...Owner) *Directory {
	t.Helper()
	d, err := New(cfg, epoch)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Open(target(1), awaited, epoch); err != nil {
		t.Fatal(err)
	}
	return d
}

// login registers and commits, confirming every conflict.
func login(t testing.TB, d *Directory, r Route, now time.Time, fx *Effects) {
	t.Helper()
	tg := target(1)
	reg, err := d.Register(tg, r, PolicyDevice, now)
	if err != nil {
		t.Fatalf("register: %v", err)
	}
	if err := d.Commit(tg, reg.Candidate, r.Session, sessionsOf(reg.Conflicts), now, fx); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func sessionsOf(routes []Route) (ids []identity.SessionID) {
	for _, r := range routes {
		ids = append(ids, r.Session)
	}
	return ids
}

// look returns the presence and routes of one user.
func look(t testing.TB, d *Directory, tg slot.Target, u identity.UID) (Presence, []Route) {
	t.Helper()
	var f Found
	if err := d.Lookup(tg, []identity.UID{u}, &f); err != nil {
		t.Fatalf("lookup: %v", err)
	}
	return f.Entries[0].Presence, f.Of(0)
}
