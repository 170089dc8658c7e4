package storage

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// backgroundNice is the nice value of threads with lowered priority.
const backgroundNice = 5

// lowerPriority gives the calling goroutine a thread of its own, with a lower priority than the
// threads that serve clients. Otherwise a GET may wait for the reaper's time slices, milliseconds
// each, while a million keys expire and other work needs the processors too. Clients must never
// wait for the goroutine. The thread ends with the goroutine.
func lowerPriority() {
	runtime.LockOSThread()
	// 0 is this thread; if refused, nothing changes.
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, backgroundNice)
}
