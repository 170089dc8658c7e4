package vfs

import "golang.org/x/sys/unix"

// syncData syncs a file's data and size, but not its times, which nothing here needs.
func syncData(fd int) error { return unix.Fdatasync(fd) }

func dropCache(fd int) error { return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) }
