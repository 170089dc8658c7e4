//go:build !linux

package main

import "golang.org/x/sys/unix"

// toolNice is the nice value of tools that compute while a server on the same machine serves.
const toolNice = 10

// yieldToServers lowers the priority of this process.
func yieldToServers() {
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, toolNice) // if refused, nothing changes
}
