package clock

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// bootTime is the time since the machine started, sleep included, in milliseconds.
func bootTime() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return sinceStart()
	}
	return t.Nano() / 1e6
}

// systemBootID is what the system calls this run of the machine, empty if it does not say.
func systemBootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
