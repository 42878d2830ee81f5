package leadership

import "github.com/switchyard-io/switchyard/shared/slot"

// Plan is the wish: the node of each of slots slots, given the ids of the live nodes, in any order.
// Every node computes the same. No node gets more than its share, rounded up. No nodes: nil.
func Plan(nodes []string, slots int) map[slot.ID]string { panic("body follows") }
