package storage

import (
	"math"
	"time"
)

// MaxMemory bounds what the process holds, of which the store's accounts show only a part. The
// overhead is the rest: the runtime's own memory, gaps between blocks and between objects, buffers
// of clients and of checkpoints, scripts. It is charged to the keys: what it takes they leave
// free.
//
// What the process holds includes garbage, and nobody knows how much of it. So the overhead is
// the least that was seen over some seconds in which the collector ran. What is needed for
// less than that, as by a short checkpoint, makes no keys leave memory.
type overhead struct {
	last, current overheadWindow
}

// overheadWindow is the least overhead seen over some time.
type overheadWindow struct {
	began  time.Duration // reading of Mono
	cycles int64         // of the collector when the window began
	bytes  int64
	gaps   int64 // of bytes, gaps between objects
}

const (
	// overheadTime is how long a window lasts at least.
	overheadTime = 5 * time.Second
	// overheadShare bounds the part of MaxMemory that the overhead takes from the keys, without
	// the gaps between objects: under a small MaxMemory there is room for some keys, too.
	overheadShare = 2
	// gapShare bounds the part that the gaps take. Keys that leave make more gaps, which only
	// new values close: without a bound more and more keys would have to leave.
	gapShare = 8
)

// charge gives how much less than limit the keys may take, where the accounts show used.
func (o *overhead) charge(m ProcessMemory, now time.Duration, used, limit int64) int64 {
	if o.current.began == 0 || m.Cycles != o.current.cycles && now-o.current.began >= overheadTime {
		if o.last = o.current; o.last.began == 0 {
			o.last.bytes = math.MaxInt64
		}
		o.current = overheadWindow{began: now, cycles: m.Cycles, bytes: math.MaxInt64}
	}
	if bytes := max(0, m.Used-used); bytes < o.current.bytes {
		o.current.bytes, o.current.gaps = bytes, min(m.Gaps, bytes)
	}
	least := o.current
	if o.last.bytes < least.bytes {
		least = o.last
	}
	return min(least.bytes-least.gaps, limit/overheadShare) + min(least.gaps, limit/gapShare)
}
