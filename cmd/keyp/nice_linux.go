package main

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// toolNice is the nice value of tools that compute while a server on the same machine serves.
const toolNice = 10

// yieldToServers lowers the priority of this process. On Linux each thread has its own priority,
// and the threads that it starts inherit it.
func yieldToServers() {
	threads, _ := os.ReadDir("/proc/self/task") // without them nothing changes
	for _, thread := range threads {
		if id, err := strconv.Atoi(thread.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, toolNice) // if refused, nothing changes
		}
	}
}
