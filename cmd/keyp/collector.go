package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// tuneInterval is how often the collector is adapted to the heap.
	tuneInterval = 100 * time.Millisecond
	// minRoom is what garbage may always take, in bytes: collecting a small heap at
	// every fifth of its size would cost more than its memory is worth.
	minRoom = 64 << 20
	// maxPercent bounds the same where the heap is tiny, before it is measured again.
	maxPercent = 400
	// leastPercent is what it may take of a large heap. Most of one is memory that the
	// collector does not look into, so that collecting more often than Go does by
	// itself costs little.
	leastPercent = 20
)

// tuneCollector keeps the garbage in memory in proportion to the live data, until stop
// is called. GOGC in the environment says that its user does that.
func tuneCollector() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(tuneInterval)
		defer tick.Stop()
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		now := 100 // Go's own
		for {
			metrics.Read(live)
			want := roomPercent(int64(live[0].Value.Uint64()))
			if want*10 < now*9 || want*10 > now*11 { // each change stops the world for a moment
				debug.SetGCPercent(want)
				now = want
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

// roomPercent is how much garbage there may be beside live bytes, as GOGC has it.
func roomPercent(live int64) int {
	return int(min(max(leastPercent, minRoom*100/max(live, 1)), maxPercent))
}
