// Package procmem measures the memory of the process. It also estimates the overhead: the memory
// that the process needs besides the keys, which is taken off maxmemory.
package procmem

import (
	"math"
	"time"
)

// MaxMemory bounds the process's memory, but the store counts only a part of that memory. The
// overhead is the remainder: the runtime's own memory, gaps between blocks and between objects,
// buffers of clients and of checkpoints, scripts. The keys may use MaxMemory less the overhead.
//
// The process's memory includes an unknown amount of garbage. So the overhead is the minimum over
// some seconds in which the garbage collector ran. A shorter need for memory, for example by a
// short checkpoint, does not make keys leave memory.

// Overhead is the part of the process's memory that the accounts do not show. Its zero value knows
// nothing yet.
type Overhead struct {
	last, current window
}

// window is the least overhead seen over some time.
type window struct {
	began  time.Duration // reading of Mono
	cycles int64         // of the collector when the window began
	bytes  int64
	gaps   int64 // of bytes, gaps between objects
	left   int64 // bytes of keys that have left memory since it began
}

const (
	// OverheadTime is the minimum length of a window.
	OverheadTime = 5 * time.Second
	// overheadShare bounds the charged overhead, without the gaps between objects, to a part of
	// MaxMemory: even a small MaxMemory has room for some keys.
	overheadShare = 2
	// gapShare bounds the part for the gaps. Keys that leave memory make more gaps, which new
	// values and copies close later. Without a bound, more and more keys would have to leave.
	gapShare = 8
)

// Charge returns the bytes of limit that the keys may not use. The accounts show used bytes.
func (o *Overhead) Charge(m Memory, now time.Duration, used, limit int64) int64 {
	if o.current.began == 0 || m.Cycles != o.current.cycles && now-o.current.began >= OverheadTime {
		if o.last = o.current; o.last.began == 0 {
			o.last.bytes = math.MaxInt64
		}
		o.current = window{began: now, cycles: m.Cycles, bytes: math.MaxInt64}
	}
	if bytes := max(0, m.Used-used); bytes < o.current.bytes {
		o.current.bytes, o.current.gaps = bytes, min(m.Gaps, bytes)
	}
	least := o.least()
	return min(least.bytes-least.gaps, limit/overheadShare) + min(least.gaps, limit/gapShare)
}

// Left notes that keys with this many bytes have left memory.
func (o *Overhead) Left(bytes int64) { o.current.left += bytes }

// least returns the window that had the least overhead.
func (o *Overhead) least() window {
	if o.last.bytes < o.current.bytes {
		return o.last
	}
	return o.current
}

// Gaps returns the size of the gaps between objects at the time of the least overhead. left is how
// many bytes of keys have left memory since the earlier window began. since is that beginning, 0
// before there are two windows.
func (o *Overhead) Gaps() (bytes, left int64, since time.Duration) {
	return o.least().gaps, o.last.left + o.current.left, o.last.began
}
