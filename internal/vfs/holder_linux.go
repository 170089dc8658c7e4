package vfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Holder returns the id of the process that has locked a file; 0 if it is unknown.
func Holder(name string) (pid int) {
	var st unix.Stat_t
	if unix.Stat(name, &st) != nil {
		return 0
	}
	list, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0
	}
	// 1: FLOCK  ADVISORY  WRITE 4711 08:02:1234567 0 EOF
	place := fmt.Sprintf("%02x:%02x:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)),
		st.Ino)
	for line := range strings.Lines(string(list)) {
		if words := strings.Fields(line); len(words) > 5 && words[1] == "FLOCK" &&
			words[5] == place {
			pid, _ = strconv.Atoi(words[4]) // 0: a process of another namespace
			return pid
		}
	}
	return 0
}
