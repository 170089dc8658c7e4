package vfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// syncData flushes the drive's cache too, which fsync does not do on macOS. It falls back to fsync
// on network file systems that support nothing else.
func syncData(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EINVAL) {
		return unix.Fsync(fd)
	}
	return err
}

// dropCache does nothing: macOS has no call that drops the cached pages of one file.
func dropCache(int) error { return nil }
