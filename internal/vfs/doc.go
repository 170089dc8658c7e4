// Package vfs is the file access of the logs and of files beside them. It has the real file system,
// one in memory that can lose power, and a wrapper that injects failures into either.
//
// A caller may rely on the following, and Mem loses everything else when it crashes:
//
//   - Bytes are on disk once Sync of their file has returned. Until then any
//     subset of the 512-byte sectors written may have arrived, in any order; a
//     single sector is never mixed.
//   - The size of a file is on disk once Sync has returned.
//   - Names (Create, Remove, Rename, MkdirAll) are on disk once SyncDir of their directory has
//     returned. Until then each operation may be undone. If the creation of a directory is undone,
//     all that is in the directory is lost, too. Rename is atomic.
//   - After a failed Sync it is unknown which bytes arrived. The caller must not call Sync
//     again: the kernel may have dropped the pages and would report success. If a signal
//     interrupts a sync, Sync retries it, because that is no failure.
package vfs

import (
	"errors"
	"io"
)

// ErrLocked is returned if another process, or another handle of this one, has the lock.
var ErrLocked = errors.New("vfs: already locked")

// File is an open file. Reads and writes at distinct offsets may run at the same time, also during
// Sync. No method may be called during or after Close.
type File interface {
	io.ReaderAt
	io.WriterAt
	Close() error

	// Sync makes the bytes written and the size durable: fdatasync on Linux,
	// F_FULLFSYNC on macOS.
	Sync() error
	// Truncate sets the size in bytes. Added bytes read as zeros.
	Truncate(size int64) error
	// Size returns the present size in bytes.
	Size() (int64, error)
	// Reread drops cached pages, so that later reads come from the device. Bytes that a
	// failed Sync left only in memory then do not look durable. On a system without such
	// a call, it does nothing.
	Reread() error
}

// FS is the part of a file system that the logs need. Names are paths in the form of
// the operating system; a missing file returns an error that is fs.ErrNotExist.
type FS interface {
	// Create opens a new file, or an existing one emptied, with mode 0600.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	Remove(name string) error
	// Rename replaces newName if it exists.
	Rename(oldName, newName string) error
	// List returns the base names in dir, sorted.
	List(dir string) ([]string, error)
	// MkdirAll makes dir and its parents, with mode 0700; SyncDir of the directory above
	// each makes them durable.
	MkdirAll(dir string) error
	// SyncDir makes the names in dir durable.
	SyncDir(dir string) error
	// Lock takes an exclusive advisory lock on name, and creates the file if needed. It returns
	// ErrLocked if another has the lock. Closing the result, or the end of the process,
	// releases it.
	Lock(name string) (io.Closer, error)
	// Free returns how many bytes a user without privileges may still use on the file system of
	// dir.
	Free(dir string) (uint64, error)
}
