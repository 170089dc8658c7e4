package server

import "time"

// seams is what tests change in a loop, in one place.
type seams struct {
	watchEvery time.Duration             // see the constant of this name
	aside      func()                    // called before and after each job that does not run on the loop's goroutine; it does nothing
	event      func(*session, readiness) // loop.event
}
