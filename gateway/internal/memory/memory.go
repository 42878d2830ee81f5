package memory

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// interval is the time between two looks.
	interval = 10 * time.Second
	// busyBytes is how much a process allocates between two looks, at least, that is not idle.
	busyBytes = 32 << 20
	// leastGain is the garbage and free memory that is worth a collection, in bytes.
	leastGain = 4 << 20
	// gainShare is the same as a share of what lives: 1/gainShare.
	gainShare = 8
)

// usage is what a look sees, in bytes.
type usage struct {
	allocated uint64 // since the process began
	live      uint64 // marked by the last collection
	objects   uint64 // live ones and garbage
	free      uint64 // free, and not given back
}

// due decides whether to collect and give back now.
func due(before, now usage) bool {
	if now.allocated-before.allocated >= busyBytes {
		return false
	}
	var garbage uint64
	if now.objects > now.live {
		garbage = now.objects - now.live
	}
	return garbage+now.free >= max(leastGain, now.live/gainShare)
}

// Trim runs until ctx ends.
func Trim(ctx context.Context) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	before := look()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := look()
		if due(before, now) {
			debug.FreeOSMemory()
		}
		before = now
	}
}

func look() usage {
	s := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(s)
	return usage{s[0].Value.Uint64(), s[1].Value.Uint64(), s[2].Value.Uint64(), s[3].Value.Uint64()}
}
