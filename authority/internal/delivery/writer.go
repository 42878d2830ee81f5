package delivery

import (
	"slices"
	"sync"

	"github.com/switchyard-io/switchyard/authority/internal/directory"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

var errQueueFull = fault.ErrQueueFull

// writer encodes batches without allocating for each address. One goroutine uses it at a time.
type writer struct {
	buf       []byte
	msg       wirepb.OwnerPush
	items     []wirepb.OwnerPushItem
	addresses []wirepb.Address
	pointers  []*wirepb.Address
}

// maxKeptBytes is how much of a large message's buffer a pooled writer keeps.
const maxKeptBytes = 512 << 10

var writers = sync.Pool{New: func() any { return new(writer) }}

// encode writes the parcels, consecutive ones of one push as one item, numbered from 0. The batch
// names its owner's life, for the owner to check (I2). The bytes are valid until the next call;
// starts has each item's first parcel.
func (w *writer) encode(o directory.Owner, parcels []Parcel) (data []byte, starts []int, err error) {
	w.items = slices.Grow(w.items[:0], len(parcels))[:0]
	w.addresses = slices.Grow(w.addresses[:0], len(parcels))[:len(parcels)]
	w.pointers = slices.Grow(w.pointers[:0], len(parcels))[:len(parcels)]
	for i := range parcels {
		p := &parcels[i]
		a := &w.addresses[i]
		a.Uid, a.SessionId, a.OwnerSeq = string(p.UID), p.Session[:], p.Seq
		w.pointers[i] = a
		if i == 0 || parcels[i-1].Push != p.Push {
			w.items = w.items[:len(w.items)+1]
			it := &w.items[len(w.items)-1]
			it.Item, it.Push = uint64(len(w.items)-1), p.Push
			starts = append(starts, i)
		}
	}
	w.msg.GatewayId, w.msg.BootId, w.msg.Items = o.Gateway, o.Boot, w.msg.Items[:0]
	for n := range w.items {
		end := len(parcels)
		if n+1 < len(starts) {
			end = starts[n+1]
		}
		w.items[n].To = w.pointers[starts[n]:end]
		w.msg.Items = append(w.msg.Items, &w.items[n])
	}
	size := w.msg.SizeVT()
	w.buf = slices.Grow(w.buf[:0], size)[:size]
	_, err = w.msg.MarshalToSizedBufferVT(w.buf)
	data = w.buf
	w.release()
	return data, starts, err
}

// release lets go of what belongs to the parcels, so that an idle writer keeps nothing alive.
func (w *writer) release() {
	for n := range w.items {
		w.items[n].Push, w.items[n].To = nil, nil
	}
	for i := range w.addresses {
		w.addresses[i].Uid, w.addresses[i].SessionId = "", nil
	}
	if cap(w.buf) > maxKeptBytes {
		w.buf = nil
	}
}
