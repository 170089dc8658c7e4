package datafile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"
	"unsafe"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"keyp/internal/vfs"
	"keyp/storage/format"
)

// Names of data files that are not complete yet. The next start removes them.
const (
	NewName      = format.DataName + ".new"
	CompactName  = format.DataName + ".compact"
	ReceivedName = format.DataName + ".received"
)

// openTimeout is how long to wait for another process that has the data file locked.
const openTimeout = 500 * time.Millisecond

// ErrLocked is returned if another process has the data directory or its data file locked.
var ErrLocked = errors.New("storage: another process uses the data directory")

// FreelistType is how bbolt keeps its list of free pages in memory. With this type it chooses pages
// at random; tests that need the same pages each time use another.
var FreelistType = bolt.FreelistMapType

// mmapGrowth is how many times its length a data file may reach without a new mapping, if
// InitialMmap is not more.
const mmapGrowth = 4

// Path returns the path of the data file.
func (f *File) Path() string { return filepath.Join(f.o.Dir, format.DataName) }

// Tidy removes what an interrupted compaction, creation or reception of the data file has left, and
// reports whether there is a data file.
func (f *File) Tidy() (exists bool, err error) {
	for _, name := range []string{CompactName, NewName, ReceivedName} {
		if err := removeFile(filepath.Join(f.o.Dir, name)); err != nil {
			return false, err
		}
	}
	_, err = os.Stat(f.Path())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return true, err
}

// Open opens the data file and reads its meta bucket, of any format version. Before that it
// verifies what bbolt relies on: the meta pages and the list of free pages.
func (f *File) Open() (m Meta, err error) {
	if err := f.prove(f.Path()); err != nil {
		return m, err
	}
	if f.mu.db, f.mu.out, err = f.openBolt(f.Path()); err != nil {
		return m, err
	}
	err = f.View(func(tx *bolt.Tx) (err error) {
		for _, name := range format.Buckets[:len(format.Buckets)-1] { // format 1 has not the last
			if tx.Bucket(name) == nil {
				return fmt.Errorf("%w: there is no bucket %s", format.ErrCorrupt, name)
			}
		}
		m, err = readMeta(tx)
		return err
	})
	if errors.Is(err, format.ErrCorrupt) {
		err = f.damaged(f.Path(), err)
	}
	return m, err
}

// openBolt opens or makes a file of bbolt. If damage makes bbolt panic, the error is
// format.ErrCorrupt.
func (f *File) openBolt(path string) (db *bolt.DB, out Writer, err error) {
	mmap := f.o.InitialMmap
	if info, err := os.Stat(path); err == nil {
		mmap = max(mmap, mmapGrowth*int(info.Size()))
	}
	var file *os.File
	open := func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
		file, err = os.OpenFile(name, flag, mode)
		return file, err
	}
	err = vfs.Uninterrupted(func() error {
		return recoverFault(func() (err error) {
			db, err = bolt.Open(path, 0o600, &bolt.Options{
				Timeout:         openTimeout,
				FreelistType:    FreelistType,
				InitialMmapSize: mmap,
				PageSize:        format.PageSize,
				OpenFile:        open,
				ReadOnly:        f.o.ReadOnly,
			})
			return err
		})
	})
	if errors.Is(err, format.ErrCorrupt) { // it panicked, with the file open and locked
		return nil, nil, errors.Join(f.damaged(path, err), file.Close())
	}
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, nil, fmt.Errorf("%w: %s", ErrLocked, path)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("storage: %s: %w", path, err)
	}
	out = osFile{file}
	if f.o.ReadOnly {
		return db, out, nil
	}
	if f.o.OnFile != nil {
		out = f.o.OnFile(path, out)
		intercept(db, out)
	}
	// bbolt counts the unused pages when a writing transaction ends.
	tx, err := db.Begin(true)
	if err == nil {
		err = tx.Rollback()
	}
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, out, nil
}

// mappedLen returns how many bytes bbolt has mapped, which its file may use without a new mapping.
// It changes only while no transaction is open. bbolt has no call for that, so mappedLen reads a
// private field.
func mappedLen(db *bolt.DB) int64 { return reflect.ValueOf(db).Elem().FieldByName("datasz").Int() }

// intercept makes bbolt write through f, with bbolt's usual syncs before and after the meta page.
// bbolt has no option for that, so intercept sets a private field. It is for tests.
func intercept(db *bolt.DB, f Writer) {
	field := reflect.ValueOf(db).Elem().FieldByName("ops").FieldByName("writeAt")
	writeAt := (*func([]byte, int64) (int, error))(unsafe.Pointer(field.UnsafeAddr()))
	db.NoSync = true
	*writeAt = func(b []byte, off int64) (n int, err error) {
		if off >= 2*format.PageSize {
			return f.WriteAt(b, off)
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		if n, err = f.WriteAt(b, off); err != nil {
			return n, err
		}
		return n, f.Sync()
	}
}

// Make makes a data file without keys. It has another name until it is complete: a crash could
// otherwise leave an incomplete file, which looks like a damaged one.
func (f *File) Make(seed format.Seed, st format.State) error {
	if err := f.syncPath(); err != nil {
		return err
	}
	made := filepath.Join(f.o.Dir, NewName)
	db, _, err := f.openBolt(made)
	if err != nil {
		return err
	}
	fill := func(tx *bolt.Tx) error { return fill(tx, seed, st) }
	// Twice, so that both meta pages lead to it.
	again := func(*bolt.Tx) error { return nil }
	if err := errors.Join(updateNew(db, fill), updateNew(db, again),
		db.Close()); err != nil {
		return err
	}
	if err := f.o.step(StepMade); err != nil {
		return err
	}
	if err := os.Rename(made, f.Path()); err != nil {
		return err
	}
	if err := f.o.step(StepNamed); err != nil {
		return err
	}
	return f.syncDir()
}

// removeFile removes a file that may be missing.
func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
