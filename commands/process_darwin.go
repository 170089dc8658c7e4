package commands

import "golang.org/x/sys/unix"

// residentSize is the largest memory in RAM that the process has had, in bytes: the
// present size can be asked for only through C.
func residentSize() int64 {
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		return 0
	}
	return use.Maxrss
}

// systemMemory is the machine's RAM in bytes; 0 when it is not known.
func systemMemory() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(n)
}

// groupMemory is what a control group allows; there are none.
func groupMemory() int64 { return 0 }
