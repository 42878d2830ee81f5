package api

import (
	"github.com/switchyard-io/switchyard/shared/slot"
)

// SlotState is how far a logical slot's leader is.
type SlotState string

// The slot states.
const (
	SlotActive     SlotState = "active"
	SlotRebuilding SlotState = "rebuilding"
	SlotNone       SlotState = "none"
)

// Slot is one logical slot as the answering node sees it. Routes is as of the leader's latest
// beacon.
type Slot struct {
	SlotID      slot.ID   `json:"slot_id"`
	HashSlots   []int     `json:"hash_slots"`
	LeaderNode  string    `json:"leader_node"`
	LeaderBoot  string    `json:"leader_boot"`
	Term        uint64    `json:"term"`
	ConfigEpoch uint64    `json:"config_epoch"`
	State       SlotState `json:"state"`
	Routes      uint64    `json:"routes"`
}

// SlotsReply answers sy.v1.slots.
type SlotsReply struct {
	Slots []Slot `json:"slots"`
}

// Node is one live process. Sessions is there for a gateway.
type Node struct {
	NodeID    string  `json:"node_id"`
	Service   string  `json:"service"`
	BootID    string  `json:"boot_id"`
	State     string  `json:"state"`
	Version   string  `json:"version"`
	StartedAt Time    `json:"started_at"`
	Sessions  *uint64 `json:"sessions,omitempty"`
}

// NodesReply answers sy.v1.nodes.
type NodesReply struct {
	Nodes []Node `json:"nodes"`
}

// EmptyRequest is the body of a request that says nothing: empty, or {}.
type EmptyRequest struct{}
