package leadership

import (
	"cmp"
	"slices"

	"github.com/switchyard-io/switchyard/shared/slot"
)

// Plan is the wish: the node of each of slots slots, given the ids of the live nodes, in any order
// and without duplicates. Every node computes the same. No node gets more than its share, rounded
// up. No nodes: nil.
//
// It is rendezvous hashing with bounded load: of all pairs (slot, node), the one with the highest
// weight is matched first, as long as the node has room. A change of the nodes therefore moves
// what it must and little more.
func Plan(nodes []string, slots int) []string {
	if len(nodes) == 0 || slots <= 0 {
		return nil
	}
	type pair struct {
		weight uint64
		id     slot.ID
		node   int
	}
	sorted := slices.Sorted(slices.Values(nodes))
	pairs := make([]pair, 0, slots*len(sorted))
	for n, node := range sorted {
		for id := range slots {
			pairs = append(pairs, pair{weight(node, slot.ID(id)), slot.ID(id), n})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.id, b.id), cmp.Compare(a.node, b.node))
	})
	room := make([]int, len(sorted))
	for i := range room {
		room[i] = (slots + len(sorted) - 1) / len(sorted)
	}
	wish := make([]string, slots)
	for _, p := range pairs {
		if wish[p.id] == "" && room[p.node] > 0 {
			wish[p.id] = sorted[p.node]
			room[p.node]--
		}
	}
	return wish
}

// weight is how much a slot wants a node: FNV-1a over both, finished with a mixer (splitmix64),
// since FNV alone is too regular for names that differ in their last bytes only.
func weight(node string, id slot.ID) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(node) {
		h = (h ^ uint64(node[i])) * prime
	}
	h = (h ^ uint64(id)) * prime
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	return h ^ h>>31
}
