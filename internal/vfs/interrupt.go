package vfs

import (
	"errors"
	"syscall"
)

// Uninterrupted runs do, and repeats it while a signal interrupts it (EINTR), because that says
// nothing about the disk. do must be safe to repeat.
func Uninterrupted(do func() error) error {
	const most = 1000
	err := do()
	for i := 0; errors.Is(err, syscall.EINTR) && i < most; i++ {
		err = do()
	}
	return err
}
