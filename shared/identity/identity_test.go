package identity_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/switchyard-io/switchyard/shared/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestForms(t *testing.T) {
	long := strings.Repeat("x", 129)
	for _, c := range []struct {
		name  string
		valid func(string) bool
		yes   []string
		no    []string
	}{
		{"name", identity.ValidName, []string{"a", "Ålice ✓", "a/b", "a b", long[:128]},
			[]string{"", long, "a\nb", "a\x00", "\xff", "a\u200eb", "\u0085"}},
		{"token", identity.ValidToken, []string{"eu", "EU-west_1", long[:32]}, []string{"", long[:33], "a.b", "a b", "a/b", "ü", "*"}},
		{"node", identity.ValidNode, []string{"g-1", long[:64]}, []string{"", long[:65], "a.b", "a=b"}},
		{"group", identity.ValidGroup, []string{"room_1", long[:64]}, []string{"", long[:65], "a*"}},
		{"flag", identity.ValidFlag, []string{"app", "web_2", long[:16]}, []string{"", long[:17], "App", "a-b"}},
	} {
		for _, s := range c.yes {
			if !c.valid(s) {
				t.Errorf("%s: %q is refused", c.name, s)
			}
		}
		for _, s := range c.no {
			if c.valid(s) {
				t.Errorf("%s: %q is taken", c.name, s)
			}
		}
	}
}

func TestIdentityValidate(t *testing.T) {
	good := identity.Identity{AccountID: "acc", UserID: "alice", RegionID: "eu", RealmID: "main", Generation: 1}
	if err := good.Validate(); err != nil || good.UID() != "eu/main/alice" {
		t.Fatalf("%v %s", err, good.UID())
	}
	for field, spoil := range map[string]func(*identity.Identity){
		"account_id": func(i *identity.Identity) { i.AccountID = "" },
		"user_id":    func(i *identity.Identity) { i.UserID = "\t" },
		"region_id":  func(i *identity.Identity) { i.RegionID = "a.b" },
		"realm_id":   func(i *identity.Identity) { i.RealmID = "" },
		"generation": func(i *identity.Identity) { i.Generation = 0 },
	} {
		bad := good
		spoil(&bad)
		if err := bad.Validate(); !errors.Is(err, identity.ErrInvalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestUIDSplitsAtTheFirstTwoSlashes(t *testing.T) {
	u, err := identity.ParseUID("eu/main/a/b/c")
	if err != nil {
		t.Fatal(err)
	}
	if r, l, n := u.Split(); r != "eu" || l != "main" || n != "a/b/c" {
		t.Fatalf("%q %q %q", r, l, n)
	}
	for _, s := range []string{"", "eu", "eu/main", "eu/main/", "/main/a", "eu//a", "e u/main/a", "eu/main/\x01"} {
		if _, err := identity.ParseUID(s); !errors.Is(err, identity.ErrInvalid) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func FuzzParseUID(f *testing.F) {
	f.Add("eu/main/alice")
	f.Add("eu/main/a/b")
	f.Add("//")
	f.Fuzz(func(t *testing.T, s string) {
		u, err := identity.ParseUID(s)
		if err != nil {
			return
		}
		region, realm, user := u.Split()
		again, err := identity.NewUID(region, realm, user)
		if err != nil || again != u || string(u) != s {
			t.Fatalf("%q came back as %q, %v", s, again, err)
		}
	})
}

func TestSessionIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := rapid.Uint8().Draw(t, "slot")
		id := identity.NewSessionID(h)
		if id.HashSlot() != h || id.IsZero() {
			t.Fatalf("%s is of slot %d", id, id.HashSlot())
		}
		parsed, err := identity.ParseSessionID(id.String())
		if err != nil || parsed != id {
			t.Fatalf("%s came back as %s, %v", id, parsed, err)
		}
		raw, err := identity.SessionIDFromBytes(id[:])
		if err != nil || raw != id {
			t.Fatalf("%s came back as %s, %v", id, raw, err)
		}
		b, err := json.Marshal(map[string]identity.SessionID{"s": id})
		if err != nil {
			t.Fatal(err)
		}
		var back map[string]identity.SessionID
		if err := json.Unmarshal(b, &back); err != nil || back["s"] != id {
			t.Fatalf("%s came back as %s, %v", id, back["s"], err)
		}
	})
}

func TestSessionIDsRefused(t *testing.T) {
	id := identity.NewSessionID(1).String()
	for _, s := range []string{"", id[:35], id + "0", "{" + id + "}", strings.ReplaceAll(id, "-", ""), "urn:uuid:" + id,
		"00000000-0000-4000-8000-000000000000", strings.Replace(id, id[:1], "g", 1)} {
		if _, err := identity.ParseSessionID(s); !errors.Is(err, identity.ErrInvalid) {
			t.Errorf("%q: %v", s, err)
		}
	}
	if _, err := identity.SessionIDFromBytes(make([]byte, 15)); !errors.Is(err, identity.ErrInvalid) {
		t.Error("15 bytes are a session id")
	}
}

func TestSessionAndBootIDsAreUnique(t *testing.T) {
	seen := make(map[string]bool)
	for range 10000 {
		for _, s := range []string{identity.NewSessionID(7).String(), identity.NewBootID()} {
			if seen[s] {
				t.Fatalf("%s came twice", s)
			}
			seen[s] = true
		}
	}
}

func TestBootIDsGrow(t *testing.T) {
	var ids []string
	for range 1000 {
		id := identity.NewBootID()
		if len(id) != 32 || !identity.ValidNode(id) {
			t.Fatalf("boot id %q", id)
		}
		ids = append(ids, id)
	}
	if !slices.IsSorted(ids) {
		t.Fatal("a later boot id sorts before an earlier one")
	}
}

func TestDefaultNodeID(t *testing.T) {
	a, b := identity.DefaultNodeID(), identity.DefaultNodeID()
	if a == b || !identity.ValidNode(a) || !identity.ValidNode(a+"-123456") {
		t.Fatalf("%q and %q", a, b)
	}
}

func TestDevice(t *testing.T) {
	d, err := identity.Device{}.Normalize()
	if err != nil || d.Flag != identity.DefaultFlag || d.Level != identity.LevelSlave {
		t.Fatalf("%+v %v", d, err)
	}
	for _, bad := range []identity.Device{{Flag: "Big"}, {Flag: "app", ID: "a\nb"}, {ID: strings.Repeat("x", 129)}} {
		if _, err := bad.Normalize(); !errors.Is(err, identity.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	var got identity.Device
	if err := json.Unmarshal([]byte(`{"id":"d","flag":"web","level":"master"}`), &got); err != nil || got.Level != identity.LevelMaster {
		t.Fatalf("%+v %v", got, err)
	}
	if b, err := json.Marshal(got); err != nil || string(b) != `{"id":"d","flag":"web","level":"master"}` {
		t.Fatalf("%s %v", b, err)
	}
	if err := json.Unmarshal([]byte(`{"level":"owner"}`), &got); !errors.Is(err, identity.ErrInvalid) {
		t.Fatalf("level owner: %v", err)
	}
}
