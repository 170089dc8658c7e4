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
	// A container may have a time of its own since the start: the offsets of its namespace.
	offsets, _ := os.ReadFile("/proc/self/timens_offsets")
	return strings.TrimSpace(string(id)) + strings.Join(strings.Fields(string(offsets)), " ")
}
