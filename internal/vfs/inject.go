package vfs

import (
	"fmt"
	"io"
)

// For tests, files can be opened with a Hook, a function that is called before each operation and
// may make it fail. Op says which operation it is.
type Op uint8

// The operations a Hook sees.
const (
	OpCreate Op = iota
	OpOpen
	OpRemove
	OpRename
	OpList
	OpMkdir
	OpSyncDir
	OpLock
	OpFree
	OpRead
	OpWrite
	OpSync
	OpTruncate
	OpSize
	OpReread
	OpClose
)

var opNames = [...]string{"create", "open", "remove", "rename", "list", "mkdir", "syncdir", "lock",
	"free", "read", "write", "sync", "truncate", "size", "reread", "close"}

func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// Hook runs before each operation on name, and may block. If it returns an error, the
// operation fails with that error and does nothing; but Close still closes the file, and a
// ShortWrite writes a part. off and n are set for reads and writes (offset and length) and
// for truncate (off is the size, n is 0). Several goroutines may call it at once.
type Hook func(op Op, name string, off int64, n int) error

// ShortWrite is an error of a Hook for a write: the first N bytes are written, and then the write
// fails with Err.
type ShortWrite struct {
	N   int
	Err error
}

func (s *ShortWrite) Error() string {
	return fmt.Sprintf("short write of %d bytes: %v", s.N, s.Err)
}

func (s *ShortWrite) Unwrap() error { return s.Err }

// Inject returns base with hook before every operation. It injects failures and delays into
// real files and files in memory.
func Inject(base FS, hook Hook) FS { return &injected{base: base, hook: hook} }

type injected struct {
	base FS
	hook Hook
}

func (i *injected) file(op Op, name string, open func(string) (File, error)) (File, error) {
	if err := i.hook(op, name, 0, 0); err != nil {
		return nil, err
	}
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	return &injectedFile{base: f, name: name, hook: i.hook}, nil
}

func (i *injected) Create(name string) (File, error) {
	return i.file(OpCreate, name, i.base.Create)
}

func (i *injected) Open(name string) (File, error) { return i.file(OpOpen, name, i.base.Open) }

func (i *injected) Remove(name string) error {
	if err := i.hook(OpRemove, name, 0, 0); err != nil {
		return err
	}
	return i.base.Remove(name)
}

func (i *injected) Rename(oldName, newName string) error {
	if err := i.hook(OpRename, oldName, 0, 0); err != nil {
		return err
	}
	return i.base.Rename(oldName, newName)
}

func (i *injected) List(dir string) ([]string, error) {
	if err := i.hook(OpList, dir, 0, 0); err != nil {
		return nil, err
	}
	return i.base.List(dir)
}

func (i *injected) MkdirAll(dir string) error {
	if err := i.hook(OpMkdir, dir, 0, 0); err != nil {
		return err
	}
	return i.base.MkdirAll(dir)
}

func (i *injected) SyncDir(dir string) error {
	if err := i.hook(OpSyncDir, dir, 0, 0); err != nil {
		return err
	}
	return i.base.SyncDir(dir)
}

func (i *injected) Lock(name string) (io.Closer, error) {
	if err := i.hook(OpLock, name, 0, 0); err != nil {
		return nil, err
	}
	return i.base.Lock(name)
}

func (i *injected) Free(dir string) (uint64, error) {
	if err := i.hook(OpFree, dir, 0, 0); err != nil {
		return 0, err
	}
	return i.base.Free(dir)
}

type injectedFile struct {
	base File
	name string
	hook Hook
}

func (f *injectedFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.hook(OpRead, f.name, off, len(p)); err != nil {
		return 0, err
	}
	return f.base.ReadAt(p, off)
}

func (f *injectedFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.hook(OpWrite, f.name, off, len(p))
	if err == nil {
		return f.base.WriteAt(p, off)
	}
	short, ok := err.(*ShortWrite)
	if !ok {
		return 0, err
	}
	n, writeErr := f.base.WriteAt(p[:min(short.N, len(p))], off)
	if writeErr != nil {
		return n, writeErr
	}
	return n, short.Err
}

func (f *injectedFile) Sync() error {
	if err := f.hook(OpSync, f.name, 0, 0); err != nil {
		return err
	}
	return f.base.Sync()
}

func (f *injectedFile) Truncate(size int64) error {
	if err := f.hook(OpTruncate, f.name, size, 0); err != nil {
		return err
	}
	return f.base.Truncate(size)
}

func (f *injectedFile) Size() (int64, error) {
	if err := f.hook(OpSize, f.name, 0, 0); err != nil {
		return 0, err
	}
	return f.base.Size()
}

func (f *injectedFile) Reread() error {
	if err := f.hook(OpReread, f.name, 0, 0); err != nil {
		return err
	}
	return f.base.Reread()
}

// Close closes the underlying file even when the hook fails, so that an injected
// failure leaks no descriptor.
func (f *injectedFile) Close() error {
	hookErr := f.hook(OpClose, f.name, 0, 0)
	if err := f.base.Close(); err != nil {
		return err
	}
	return hookErr
}
