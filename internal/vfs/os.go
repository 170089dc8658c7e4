package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// OS is the real file system.
var OS FS = osFS{}

type osFS struct{}

func (osFS) Create(name string) (File, error) {
	return openFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (osFS) Open(name string) (File, error) { return openFile(name, os.O_RDWR) }

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

func (osFS) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o700) }

func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// flock locks an open file until it is closed. It returns ErrLocked if the file is already locked.
func flock(f *os.File) error {
	err := retryInterrupted(func() error {
		return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	})
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

func (osFS) Free(dir string) (uint64, error) {
	var st unix.Statfs_t
	err := retryInterrupted(func() error { return unix.Statfs(dir, &st) })
	if err != nil {
		return 0, fmt.Errorf("statfs %s: %w", dir, err)
	}
	// The field types differ between systems, hence the conversions.
	return uint64(st.Bavail) * uint64(st.Bsize), nil
}

// osFile keeps the descriptor together with the file, so that a sync on the hot path costs one
// system call and no closure.
type osFile struct {
	*os.File
	fd int
}

func openFile(name string, flags int) (File, error) {
	f, err := os.OpenFile(name, flags, 0o600)
	if err != nil {
		return nil, err
	}
	return &osFile{File: f, fd: int(f.Fd())}, nil
}

func (f *osFile) Sync() error {
	if err := syncFD(f.fd); err != nil {
		return fmt.Errorf("sync %s: %w", f.Name(), err)
	}
	return nil
}

// Sync syncs an os.File as File.Sync does.
func Sync(f *os.File) error {
	if err := syncFD(int(f.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", f.Name(), err)
	}
	return nil
}

// syncFD syncs a file. If a signal interrupts the sync, the kernel still has all data, so syncFD
// retries. Any other error is final.
func syncFD(fd int) error {
	err := syncData(fd)
	for i := 0; err == unix.EINTR && i < maxInterrupts; i++ {
		err = syncData(fd)
	}
	return err
}

func (f *osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f *osFile) Reread() error {
	if err := dropCache(f.fd); err != nil {
		return fmt.Errorf("drop cache of %s: %w", f.Name(), err)
	}
	return nil
}

// maxInterrupts bounds the retries of a call that signals keep interrupting.
const maxInterrupts = 1000

func retryInterrupted(call func() error) error {
	err := call()
	for i := 0; errors.Is(err, unix.EINTR) && i < maxInterrupts; i++ {
		err = call()
	}
	return err
}
