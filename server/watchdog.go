package server

import (
	"runtime"
	"sync/atomic"
	"time"
)

// watchdog reports an event loop that is stuck: one pass takes over 5 seconds, because of a
// deadlock or of slow work. It logs the stacks of all goroutines, which show the cause and the
// place.
//
// The loop only counts its passes. Once a second another goroutine checks whether the loop sleeps
// or the count has changed. Time is measured in these checks. So a process that was stopped for a
// while, or a step of the clock, is not reported.
type watchdog struct {
	passes atomic.Uint64

	// Only the watchdog's goroutine uses these.
	seen          uint64 // passes, as of the last look
	still, silent int    // looks: without a new pass, and until the next report
	reported      bool
}

const (
	// hangLooks is the number of looks without a new pass after which the watchdog reports.
	hangLooks = 5
	// watchdogPause is the time between two looks.
	watchdogPause = time.Second
	// hangSilence is the number of looks after a report during which no other report follows.
	hangSilence = 600
	// hangStacks limits the size of the stacks in a report, in bytes.
	hangStacks = 256 << 10
)

// runWatchdog checks the loop until the loop ends. It runs in its own goroutine.
func (l *loop) runWatchdog() {
	tick := time.NewTicker(l.seams.watchdogPause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.watchdog.look(l)
		case <-l.tasks.gone:
			return
		}
	}
}

// look checks the loop once. It logs a standstill once, and logs when the loop continues.
func (w *watchdog) look(l *loop) {
	w.silent = max(0, w.silent-1)
	if now := w.passes.Load(); now != w.seen || l.box.asleep.Load() {
		if w.reported {
			l.o.Log.Warn("the event loop continues", "after",
				time.Duration(w.still)*l.seams.watchdogPause)
		}
		w.seen, w.still, w.reported = now, 0, false
	} else if w.still++; w.still >= hangLooks && w.silent == 0 && !w.reported {
		w.reported, w.silent = true, hangSilence
		l.reportHang()
	}
}

func (l *loop) reportHang() {
	stacks := make([]byte, hangStacks)
	stacks = stacks[:runtime.Stack(stacks, true)]
	l.o.Log.Error("the event loop is stuck: no client is served", "for",
		hangLooks*l.seams.watchdogPause, "stacks", string(stacks))
}
