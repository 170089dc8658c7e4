package commands

import "golang.org/x/sys/unix"

// residentSize returns the maximum memory in RAM that the process has had, in bytes. The present
// size is available only through C.
func residentSize() int64 {
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		return 0
	}
	return use.Maxrss
}

// systemMemory returns the machine's RAM in bytes, or 0 if it is not known.
func systemMemory() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(n)
}

// groupMemory returns 0: there are no control groups that bound memory.
func groupMemory() int64 { return 0 }
