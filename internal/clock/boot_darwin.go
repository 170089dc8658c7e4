package clock

import "golang.org/x/sys/unix"

// bootTime returns the time since the machine started, in milliseconds, including sleep. On macOS
// CLOCK_MONOTONIC goes on while the machine sleeps.
func bootTime() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return sinceStart()
	}
	return t.Nano() / 1e6
}

// systemBootID returns the system's id of this run of the machine; empty if it is unknown.
func systemBootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
