package clock

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// bootTime returns the time since the machine started, in milliseconds, including sleep.
func bootTime() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return sinceStart()
	}
	return t.Nano() / 1e6
}

// systemBootID returns the system's id of this run of the machine; empty if it is unknown.
func systemBootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
