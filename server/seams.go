package server

import "time"

// seams contains the parts of a loop that tests may replace.
type seams struct {
	superviseEvery time.Duration // see the constant of this name
	watchdogPause  time.Duration // see the constant of this name
	pushMost       int           // see the constant of this name
	// Called before and after each task that does not run on the loop's goroutine; it does nothing.
	besideLoop func()
	event      func(*session, readiness) // loop.event
}

// defaultSeams returns the seams of a loop that serves clients.
func (l *loop) defaultSeams() seams {
	return seams{superviseEvery: superviseEvery, watchdogPause: watchdogPause, pushMost: pushMost,
		besideLoop: func() {}, event: l.event}
}
