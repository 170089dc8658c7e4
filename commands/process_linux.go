package commands

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// residentSize returns the process's memory in RAM, in bytes, or 0 if it is not known.
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

// systemMemory returns the machine's RAM in bytes, or 0 if it is not known.
func systemMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}

// groupMemory returns the lowest limit of the process's control groups, in bytes; 0 means no limit.
func groupMemory() int64 {
	const mounted = "/sys/fs/cgroup"
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	least := int64(0)
	look := func(dir, file string) {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if n, wrong := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil &&
			wrong == nil && (least == 0 || n < least) {
			least = n
		}
	}
	// Lines are "number:controllers:path", without controllers in version 2.
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 || parts[1] != "" && !slices.Contains(strings.Split(parts[1], ","),
			"memory") {
			continue
		}
		root, file := mounted, "memory.max"
		if parts[1] != "" {
			root, file = mounted+"/memory", "memory.limit_in_bytes"
		}
		for path := filepath.Clean(parts[2]); ; path = filepath.Dir(path) {
			look(filepath.Join(root, path), file)
			if path == "/" || path == "." {
				break
			}
		}
	}
	return least
}
