package main

import (
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"keyp/internal/config"
	"keyp/storage/slab"
)

// This file adapts Go's garbage collector to the size of the data and to the option maxmemory.

const (
	// tuneInterval is how often the collector is adapted to the heap.
	tuneInterval = 100 * time.Millisecond
	// minRoom is the memory that garbage may always take, in bytes. If a small heap were collected
	// each time it grows by a fifth, that would cost more than the memory is worth. If maxmemory
	// is small, the value is maxmemory/roomShare instead, but at least leastRoom.
	minRoom   = 64 << 20
	roomShare = 8
	leastRoom = 8 << 20
	// maxPercent is the maximum garbage in percent of the live data. Without it a tiny heap
	// that grows could have too much garbage before it is measured again.
	maxPercent = 400
	// leastPercent is the garbage that a large heap may have, in percent of the live data. The
	// collector does not scan most memory of a large heap, so collecting more often than Go does
	// by itself costs little.
	leastPercent = 20
	// minMargin is the least memory above maxmemory that the process may take, in bytes. For a
	// large maxmemory the margin is marginPercent of it.
	minMargin     = 64 << 20
	marginPercent = 30
)

// tuneCollector keeps the garbage in memory in proportion to the live data, and the size of the
// process near maxmemory, until stop is called. If the environment has GOGC, it does not control
// the garbage; if the environment has GOMEMLIMIT, it does not control the size of the process.
func tuneCollector(cfg *config.Config) (stop func()) {
	percent := os.Getenv("GOGC") == ""
	limit := os.Getenv("GOMEMLIMIT") == ""
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(tuneInterval)
		defer tick.Stop()
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		now, bound := 100, int64(math.MaxInt64) // Go's own
		for {
			// Each change stops the world for a moment.
			metrics.Read(live)
			want := roomPercent(int64(live[0].Value.Uint64()), cfg.Int("maxmemory"))
			if percent && (want*10 < now*9 || want*10 > now*11) {
				debug.SetGCPercent(want)
				now = want
			}
			if to := memoryLimit(cfg.Int("maxmemory"), slab.OffHeap()); limit &&
				differs(to, bound) {
				debug.SetMemoryLimit(to)
				bound = to
			}
			select {
			case <-tick.C:
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

// roomPercent returns a value for GOGC: the garbage allowed, in percent of the live bytes.
// maxmemory 0 means no limit.
func roomPercent(live, maxmemory int64) int {
	room := int64(minRoom)
	if maxmemory > 0 {
		room = min(room, max(maxmemory/roomShare, leastRoom))
	}
	return int(min(max(leastPercent, room*100/max(live, 1)), maxPercent))
}

// memoryLimit returns a value for GOMEMLIMIT, in bytes. It is maxmemory and the margin, less the
// memory that the process uses outside of Go's heap. maxmemory 0 gives no limit.
func memoryLimit(maxmemory, outside int64) int64 {
	if maxmemory == 0 {
		return math.MaxInt64
	}
	margin := max(maxmemory/100*marginPercent, minMargin)
	return max(min(maxmemory, math.MaxInt64-margin)+margin-outside, margin)
}

// differs reports whether a limit changes by more than a fiftieth. Smaller changes are not made.
func differs(to, from int64) bool { return max(to-from, from-to) > from/50 }
