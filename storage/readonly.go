package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"keyp/internal/vfs"
	"keyp/storage/wal"
)

// A store that is opened read-only changes nothing in its directory, which may be one that
// cannot be written: the log is read as recovery reads it, and what the store itself logs
// goes to another one, in memory. It is for looking at, and has no checkpoints.

// readOnlyFS is the system's files, to be read.
type readOnlyFS struct{ vfs.FS }

// errReadOnly is what changes of a readOnlyFS get.
var errReadOnly = errors.New("storage: opened for reading only")

func (readOnlyFS) Create(string) (vfs.File, error) { return nil, errReadOnly }
func (readOnlyFS) Remove(string) error             { return errReadOnly }
func (readOnlyFS) Rename(_, _ string) error        { return errReadOnly }
func (readOnlyFS) MkdirAll(string) error           { return errReadOnly }
func (readOnlyFS) SyncDir(string) error            { return errReadOnly }

func (readOnlyFS) Open(name string) (vfs.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return readOnlyFile{f}, nil
}

type readOnlyFile struct{ *os.File }

func (readOnlyFile) Sync() error                        { return nil }
func (readOnlyFile) Reread() error                      { return nil }
func (readOnlyFile) Truncate(int64) error               { return errReadOnly }
func (readOnlyFile) WriteAt([]byte, int64) (int, error) { return 0, errReadOnly }

func (f readOnlyFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// lockForReading takes the lock of a directory if it has one and that can be opened for
// writing, so that nobody writes meanwhile; ErrLocked if somebody does.
func (o *Options) lockForReading() (io.Closer, error) {
	if _, err := os.Stat(filepath.Join(o.Dir, lockFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	lock, err := o.takeLock()
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return nil, nil
	}
	return lock, err
}

// readLog replays the log and leaves it as it is.
func (s *Store) readLog(first uint64, replays *feed) error {
	_, err := wal.Check(wal.Options{FS: readOnlyFS{vfs.OS}, Dir: filepath.Join(s.options.Dir, logDir)}, first, replays.batch)
	if err = errors.Join(err, replays.end()); err != nil {
		return err
	}
	s.log, err = wal.Open(wal.Options{FS: vfs.NewMem(), Dir: logDir, Clock: s.clock, Logger: s.options.Logger, NoBackground: true}, 0, nil)
	return err
}
