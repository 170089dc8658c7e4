package main

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"keyp/internal/vfs"
)

// logFiles returns the file system for the log. If delay is not 0, each sync takes delay
// microseconds longer.
func logFiles(delay int64) vfs.FS {
	if delay == 0 {
		return vfs.OS
	}
	return vfs.Slow(vfs.OS, func() { blockThread(time.Duration(delay) * time.Microsecond) })
}

// blockThread waits in a system call, as a sync does. Other goroutines get the processor only when
// the scheduler notices the wait. With time.Sleep they get it at once.
func blockThread(d time.Duration) {
	end := time.Now().Add(d)
	for left := d; left > 0; left = time.Until(end) {
		wait := unix.NsecToTimeval(left.Nanoseconds())
		// A signal ends the wait early; any other error would be one of the arguments.
		if _, err := unix.Select(0, nil, nil, nil, &wait); err != nil &&
			!errors.Is(err, unix.EINTR) {
			return
		}
	}
}
