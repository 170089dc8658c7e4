package storage

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// backgroundNice is the nice value of threads with lowered priority.
const backgroundNice = 5

// lowerPriority gives the calling goroutine a thread of its own, with a lower priority than the
// threads that serve clients. While a million keys expire and other work wants the processors too,
// GETs otherwise wait for the reaper's time slices, milliseconds each. Clients must never wait for
// the goroutine, which ends with its thread.
func lowerPriority() {
	runtime.LockOSThread()
	// 0 is this thread; if refused, nothing changes.
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, backgroundNice)
}
