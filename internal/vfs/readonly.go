package vfs

import (
	"errors"
	"os"
)

// ReadOnly is the file system of the machine, for reading only. An operation that would change
// something returns an error. Lock is an exception: it still creates a missing file.
var ReadOnly FS = readOnly{OS}

type readOnly struct{ FS }

// errReadOnly is the error of an operation that ReadOnly refuses.
var errReadOnly = errors.New("vfs: opened for reading only")

func (readOnly) Create(string) (File, error) { return nil, errReadOnly }
func (readOnly) Remove(string) error         { return errReadOnly }
func (readOnly) Rename(_, _ string) error    { return errReadOnly }
func (readOnly) MkdirAll(string) error       { return errReadOnly }
func (readOnly) SyncDir(string) error        { return errReadOnly }

func (readOnly) Open(name string) (File, error) {
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
