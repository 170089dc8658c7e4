package commands

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// residentSize is the process's memory in RAM, in bytes; 0 when it cannot be told.
func residentSize() int64 {
	data, err := os.ReadFile("/proc/self/statm")
	fields := bytes.Fields(data)
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// systemMemory is the machine's RAM in bytes; 0 when it cannot be told.
func systemMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
