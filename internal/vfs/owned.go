package vfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// CreateOwned creates a new file, readable by its owner only, and locks it until it is closed. It
// first removes an existing file or link of that name, and returns ErrLocked if another process
// has that locked. So it never writes to a link's target or to a file that also has another name.
func CreateOwned(name string) (*os.File, error) {
	if err := RemoveUnlocked(name); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) { // another process has just created it
		return nil, fmt.Errorf("%w: %s", ErrLocked, name)
	} else if err != nil {
		return nil, err
	}
	if err = flock(f); err == nil {
		err = stillNamed(f) // another process may have removed it before it was locked
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// RemoveUnlocked removes a file, if it exists. It returns ErrLocked if a process has it locked.
func RemoveUnlocked(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case errors.Is(err, unix.ELOOP): // a symbolic link
		return os.Remove(name)
	case err != nil:
		return err
	}
	if err = flock(f); err == nil {
		err = stillNamed(f)
	}
	if err == nil {
		err = os.Remove(name)
	}
	return errors.Join(err, f.Close())
}

// stillNamed returns ErrLocked if the name no longer refers to f, because another process removed
// or replaced the file.
func stillNamed(f *os.File) error {
	have, err := f.Stat()
	if err != nil {
		return err
	}
	named, err := os.Lstat(f.Name())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err != nil || !os.SameFile(have, named) {
		return fmt.Errorf("%w: %s", ErrLocked, f.Name())
	}
	return nil
}
