package storage

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// backgroundNice is the nice value of threads that stand back.
const backgroundNice = 5

// lowerPriority gives the calling goroutine a thread of its own that the system runs after
// those that serve clients. While a million keys expire and other work wants the
// processors too, GETs otherwise wait for the reaper's time slices, milliseconds each.
// The goroutine must not take part in what clients wait for, and ends with its thread.
func lowerPriority() {
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, backgroundNice) // 0 is this thread; as before if refused
}
