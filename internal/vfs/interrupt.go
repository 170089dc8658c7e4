package vfs

import (
	"errors"
	"syscall"
)

// Uninterrupted runs do, again each time a signal has interrupted it (EINTR), which is no sign
// about the disk. do must be safe to repeat.
func Uninterrupted(do func() error) error {
	const most = 1000
	err := do()
	for i := 0; errors.Is(err, syscall.EINTR) && i < most; i++ {
		err = do()
	}
	return err
}
