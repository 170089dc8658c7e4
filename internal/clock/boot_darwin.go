package clock

import "golang.org/x/sys/unix"

// bootTime is the time since the machine started, sleep included, in milliseconds: this clock of
// macOS goes on while the machine sleeps.
func bootTime() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return sinceStart()
	}
	return t.Nano() / 1e6
}

// systemBootID is what the system calls this run of the machine, empty if it does not say.
func systemBootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
