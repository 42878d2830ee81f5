package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/services/e2e/lab"
)

func mustInt(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func testSlotsAndNodes(t *testing.T, d *deployment) {
	b := d.backend(t)
	var slots struct {
		Slots []struct {
			SlotID      int    `json:"slot_id"`
			HashSlots   []int  `json:"hash_slots"`
			LeaderNode  string `json:"leader_node"`
			LeaderBoot  string `json:"leader_boot"`
			Term        uint64 `json:"term"`
			ConfigEpoch uint64 `json:"config_epoch"`
			State       string `json:"state"`
		} `json:"slots"`
	}
	// Slots may still be on their way to the authority that started last.
	lab.Eventually(t, 15*time.Second, func() error {
		slots.Slots = nil
		if code := b.Call("sy.v1.slots", map[string]any{}, &slots); code != "" {
			return errors.New(code)
		}
		for _, s := range slots.Slots {
			if s.State != "active" || s.LeaderNode == "" || s.LeaderBoot == "" || s.Term == 0 || s.ConfigEpoch == 0 {
				return fmt.Errorf("slot %+v", s)
			}
		}
		return nil
	})
	seen := map[int]bool{}
	for _, s := range slots.Slots {
		for _, h := range s.HashSlots {
			seen[h] = true
		}
	}
	if len(slots.Slots) != 32 || len(seen) != 256 {
		t.Errorf("%d slots with %d hash slots", len(slots.Slots), len(seen))
	}
	var nodes struct {
		Nodes []struct {
			NodeID    string `json:"node_id"`
			Service   string `json:"service"`
			BootID    string `json:"boot_id"`
			State     string `json:"state"`
			Version   string `json:"version"`
			StartedAt string `json:"started_at"`
			Sessions  *int   `json:"sessions"`
		} `json:"nodes"`
	}
	if code := b.Call("sy.v1.nodes", map[string]any{}, &nodes); code != "" {
		t.Fatal(code)
	}
	count := map[string]int{}
	for _, n := range nodes.Nodes {
		count[n.Service]++
		if n.NodeID == "" || n.BootID == "" || n.State != "ready" || n.Version == "" {
			t.Errorf("node %+v", n)
		}
		if _, err := time.Parse("2006-01-02T15:04:05.000Z", n.StartedAt); err != nil {
			t.Errorf("node %s: %v", n.NodeID, err)
		}
		if (n.Sessions != nil) != (n.Service == "gateway") {
			t.Errorf("node %s of service %s: sessions %v", n.NodeID, n.Service, n.Sessions)
		}
	}
	if count["gateway"] != 2 || count["authority"] < 1 || count["ticketing"] < 1 || count["worldrouter"] != 1 {
		t.Errorf("nodes by service: %v", count)
	}
}

// testMicro: all four services answer `nats micro ls`, and the outside subjects are endpoints.
func testMicro(t *testing.T, d *deployment) {
	b := d.backend(t)
	inbox := b.NewInbox()
	sub, err := b.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.PublishMsg(&nats.Msg{Subject: "$SRV.INFO", Reply: inbox}); err != nil {
		t.Fatal(err)
	}
	names, endpoints := map[string]bool{}, map[string]bool{}
	lab.Eventually(t, 10*time.Second, func() error {
		for {
			m, err := sub.NextMsg(100 * time.Millisecond)
			if err != nil {
				break
			}
			var info struct {
				Name      string `json:"name"`
				Endpoints []struct {
					Subject string `json:"subject"`
				} `json:"endpoints"`
			}
			if err := json.Unmarshal(m.Data, &info); err != nil {
				return err
			}
			names[info.Name] = true
			for _, e := range info.Endpoints {
				endpoints[e.Subject] = true
			}
		}
		for _, name := range []string{"gateway", "authority", "ticketing", "worldrouter"} {
			if !names[name] {
				return missing(name)
			}
		}
		for _, s := range []string{"sy.v1.push", "sy.v1.presence", "sy.v1.kick", "sy.v1.group.join", "sy.v1.group.leave", "sy.v1.slots", "sy.v1.nodes", "sy.v1.ticket.issue"} {
			if !endpoints[s] {
				return missing(s)
			}
		}
		return nil
	})
}

type missing string

func (m missing) Error() string { return "not announced: " + string(m) }
