package vfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// CreateOwned makes a file, readable by its owner only, that no other process has, and locks it
// until it is closed. What has the name already is removed, unless another process has it locked
// (ErrLocked). So nothing is written to what stood there: a link's target, or a file that has
// another name too.
func CreateOwned(name string) (*os.File, error) {
	if err := RemoveUnlocked(name); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) { // it came just now
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

// RemoveUnlocked removes a file, if there is one, that no process has locked; otherwise it returns
// ErrLocked.
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

// stillNamed returns ErrLocked where the file's name is another file's now: another process made
// that.
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
