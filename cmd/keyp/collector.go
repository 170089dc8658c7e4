package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"keyp/internal/config"
)

const (
	// tuneInterval is how often the collector is adapted to the heap.
	tuneInterval = 100 * time.Millisecond
	// minRoom is what garbage may always take, in bytes: collecting a small heap at
	// every quarter of its size would cost more than its memory is worth.
	minRoom = 64 << 20
	// maxPercent bounds the same where the heap is tiny, before it is measured again.
	maxPercent = 400
	// boundedPercent and freePercent are what it may take of a large heap, with
	// maxmemory and without. Strings stand in memory that the collector does not look
	// at, so that collecting more often than Go does by itself costs little.
	boundedPercent = 20
	freePercent    = 50
)

// tuneCollector keeps the garbage in memory in proportion to the live data, until stop
// is called. GOGC in the environment says that its user does that.
func tuneCollector(cfg *config.Config) (stop func()) {
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
			want := roomPercent(int64(live[0].Value.Uint64()), cfg.Int("maxmemory") > 0)
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
func roomPercent(live int64, bounded bool) int {
	least := int64(freePercent)
	if bounded {
		least = boundedPercent
	}
	return int(min(max(least, minRoom*100/max(live, 1)), maxPercent))
}
