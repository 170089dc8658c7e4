package server

import (
	"runtime"
	"sync/atomic"
	"time"
)

// watchdog reports an event loop that is stuck: one pass takes over 5 seconds, because of a
// deadlock, or of something that takes that long. It logs the stacks of all goroutines, which show
// which it is and where.
//
// The loop only counts its passes. A goroutine looks once a second whether it sleeps or the number has
// changed. It is the number of looks that counts, so neither a process that was stopped for a while
// nor a step of the clock looks like a standstill.
type watchdog struct {
	passes atomic.Uint64
	looks  atomic.Int64
	every  time.Duration
}

const (
	// hangLooks is how often the number of passes stays the same until that is reported.
	hangLooks = 5
	// watchPause is the time between two looks.
	watchPause = time.Second
	// hangSilence is how many looks have to follow a report before the next one.
	hangSilence = 600
	// hangStacks bounds the stacks of a report, in bytes.
	hangStacks = 256 << 10
)

// watch is the watchdog's goroutine. It ends with the loop.
func (l *loop) watch() {
	w := &l.watchdog
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	var seen uint64
	still, silent, reported := 0, 0, false
	for {
		select {
		case <-tick.C:
		case <-l.jobs.gone:
			return
		}
		silent = max(0, silent-1)
		if now := w.passes.Load(); now != seen || l.box.asleep.Load() {
			if reported {
				l.o.Log.Warn("the event loop continues", "after", time.Duration(still)*w.every)
			}
			seen, still, reported = now, 0, false
		} else if still++; still >= hangLooks && silent == 0 && !reported {
			reported, silent = true, hangSilence
			l.reportHang()
		}
		w.looks.Add(1)
	}
}

func (l *loop) reportHang() {
	stacks := make([]byte, hangStacks)
	stacks = stacks[:runtime.Stack(stacks, true)]
	l.o.Log.Error("the event loop is stuck: no client is served", "for", hangLooks*l.watchdog.every, "stacks", string(stacks))
}
