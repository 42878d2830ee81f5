package directory

// keptQueue is the length of queue up to which an emptied set keeps its memory.
const keptQueue = 1024

// deadlines is a set whose members leave in the order in which they were put: the base
// of candidates, tombstones and fenced owners, whose numbers their users bound. Each member
// carries a value and the time of its last put.
//
// The queue may hold entries whose member has left or was put again; they are skipped, and
// squeezed out once they outnumber the members, so the queue stays O(members).
type deadlines[K comparable, V any] struct {
	members map[K]timed[V]
	queue   []due[K] // ascending by at
	head    int
}

type timed[V any] struct {
	value V
	at    int64
}

type due[K comparable] struct {
	key K
	at  int64
}

func (d *deadlines[K, V]) len() int { return len(d.members) }

func (d *deadlines[K, V]) get(k K) (V, bool) {
	m, ok := d.members[k]
	return m.value, ok
}

// put adds or replaces a member at a time in milliseconds; times that go back count as the
// latest so far.
func (d *deadlines[K, V]) put(k K, v V, at int64) {
	if n := len(d.queue); n > d.head {
		at = max(at, d.queue[n-1].at)
	}
	if d.members == nil {
		d.members = make(map[K]timed[V])
	}
	m, known := d.members[k]
	d.members[k] = timed[V]{v, at}
	if known && m.at == at {
		return // its entry in the queue is right already
	}
	d.queue = append(d.queue, due[K]{k, at})
	if len(d.queue) > 2*len(d.members)+64 {
		d.squeeze()
	}
}

func (d *deadlines[K, V]) drop(k K) {
	delete(d.members, k)
	if len(d.members) > 0 {
		return
	}
	d.queue, d.head = d.queue[:0], 0
	if cap(d.queue) > keptQueue { // Go maps never shrink: after a flood, start anew
		d.members, d.queue = nil, nil
	}
}

// oldest returns the member that was put first.
func (d *deadlines[K, V]) oldest() (k K, at int64, ok bool) {
	for d.head < len(d.queue) {
		e := d.queue[d.head]
		if m, live := d.members[e.key]; live && m.at == e.at {
			return e.key, e.at, true
		}
		d.head++
	}
	d.queue, d.head = d.queue[:0], 0
	return k, 0, false
}

// dropUntil drops all members put at or before a time and returns how many.
func (d *deadlines[K, V]) dropUntil(at int64) (n int) {
	for {
		k, t, ok := d.oldest()
		if !ok || t > at {
			return n
		}
		d.drop(k)
		n++
	}
}

func (d *deadlines[K, V]) squeeze() {
	live := d.queue[:0]
	for _, e := range d.queue[d.head:] {
		if m, ok := d.members[e.key]; ok && m.at == e.at {
			live = append(live, e)
		}
	}
	d.queue, d.head = live, 0
}
