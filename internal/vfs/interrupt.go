package vfs

import (
	"errors"
	"syscall"
)

// Uninterrupted calls the function do, and calls it again while it ends with EINTR. A signal has
// then interrupted a system call, which says nothing about the disk. do must be safe to repeat.
func Uninterrupted(do func() error) error {
	const most = 1000
	err := do()
	for i := 0; errors.Is(err, syscall.EINTR) && i < most; i++ {
		err = do()
	}
	return err
}
