package commands

import (
	"math"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"keyp/storage/procmem"
)

// UsedMemory returns the memory of the process in bytes, which is used_memory in INFO. It is cheap
// enough to be called ten times a second.
func UsedMemory() int64 { return procmem.Read().Used }

// cpuTime returns the processor time that the process, or its children, have used so far.
func cpuTime(who int) (system, user time.Duration) {
	var use unix.Rusage
	if err := unix.Getrusage(who, &use); err != nil {
		return 0, 0
	}
	return time.Duration(use.Stime.Nano()), time.Duration(use.Utime.Nano())
}

// osName returns the system's name, release and machine.
func osName() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]) + " " +
		unix.ByteSliceToString(u.Machine[:])
}

// UsableMemory returns the memory that the process may use, in bytes: that of the machine, or a
// lower limit of a control group or GOMEMLIMIT. It returns 0 if that is not known.
func UsableMemory() int64 {
	least := int64(math.MaxInt64)
	for _, n := range []int64{systemMemory(), groupMemory()} {
		if n > 0 {
			least = min(least, n)
		}
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		least = min(least, debug.SetMemoryLimit(-1))
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}
