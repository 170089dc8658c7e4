package server

import "time"

// maxEvents is the largest number of events that one wait returns.
const maxEvents = 1024

// readiness says what a descriptor is ready for. The poller itself has one form per
// system, with the methods add, reportRoom, wait, at, wake and close.
type readiness uint8

const (
	readyRead  readiness = 1 << iota // there may be input
	readyWrite                       // there may be room again
	readyEOF                         // the peer has ended its side: read until the end shows
	readyDead                        // nothing can be sent any more
)

// milliseconds rounds a wait up, since waking early would only mean to wait again.
func milliseconds(d time.Duration) int {
	if d < 0 {
		return -1
	}
	return int((d + time.Millisecond - 1) / time.Millisecond)
}

// firstError returns the first error that is not nil.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
