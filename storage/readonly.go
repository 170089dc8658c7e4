package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"keyp/internal/vfs"
	"keyp/storage/format"
	"keyp/storage/wal"
)

// A store that is opened read-only changes nothing in its directory, which may be read-only itself.
// The log is read in the same way as by recovery, and the store's own records go to another log, in
// memory. There are no checkpoints.

// LockForReading locks the directory, so that no process writes to it until the lock is closed. It
// returns ErrLocked if a process has the directory locked. The lock is nil for a directory that was
// never written to, or that this process may not write to.
func (o *Options) LockForReading() (io.Closer, error) {
	if _, err := os.Stat(filepath.Join(o.Dir, lockFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	lock, err := o.lock()
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return nil, nil
	}
	return lock, err
}

// readLog replays the log and leaves it as it is.
func (s *Store) readLog(first uint64, replays *feed) error {
	_, err := wal.Check(wal.Options{FS: vfs.ReadOnly, Dir: filepath.Join(s.options.Dir,
		format.LogDir), Progress: s.options.Progress}, first, replays.batch)
	if err = errors.Join(err, replays.end()); err != nil {
		return err
	}
	s.log, err = wal.Open(wal.Options{
		FS: vfs.NewMem(), Dir: format.LogDir, Clock: s.clock, Logger: s.options.Logger,
		NoBackground: true,
		SegmentSize:  64 << 10, // nothing is ever written to it
	}, 0, nil)
	return err
}

// exists returns ErrNoData if o requires existing data and the directory has neither a data file
// nor a log.
func (o *Options) exists() error {
	path := filepath.Join(o.Dir, format.DataName)
	if _, err := os.Stat(path); !o.Existing || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lowest, err := wal.Lowest(o.FS, filepath.Join(o.Dir, format.LogDir))
	if err == nil && lowest == 0 {
		err = fmt.Errorf("%w: there is no %s", ErrNoData, path)
	}
	return err
}
