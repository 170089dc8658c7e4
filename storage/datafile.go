package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	bolt "go.etcd.io/bbolt"

	"keyp/internal/vfs"
	"keyp/storage/format"
)

// One write decides the content of the data file. bbolt writes the pages of a transaction where no
// page is in use, and syncs. Then it writes one of its two meta pages, which leads to them, and
// syncs again. If any of this fails it undoes the transaction in memory, and the file may contain
// it all the same. So:
//
//   - A failure before the write of the meta page leaves free pages, and the file as it was. The
//     store waits for room on a full disk (notWritten).
//   - After a later failure the content of the disk is unknown, and the view that memory has of the
//     file may be wrong (errUncertain). The store ends: the log has everything that was
//     acknowledged, and the next start begins with the state in the file.
//   - That start may read data that were never synced, or whose sync has failed, since the kernel
//     shows both. The log releases segments because of the state in the file, so the file is made
//     durable first (rewriteMeta).

// errUncertain is the error of a commit if it is unknown whether the transaction is in the data
// file.
var errUncertain = errors.New("it is not known whether the data file has the last transaction; the log has it, and the next start finds out")

// dataFile is the file that bbolt has open. A compaction replaces it.
type dataFile struct {
	s         *Store // constant
	snapshots snapshots
	// The fields change while checkpointer.mu is locked too: a lock of either is enough to use
	// them.
	mu struct {
		sync.RWMutex
		db  *bolt.DB
		out DataFile // the file below it
	}
	stuck atomic.Bool // bbolt keeps its locks: the file can be neither used nor closed
}

// transact runs fn in a transaction by run, View or Update of the data file, guarded as guard does.
// If bbolt panics over a damaged meta page while it begins or rolls back a transaction, it keeps
// its locks. Later users of the file would wait for ever, so the store fails then.
func (df *dataFile) transact(run func(func(*bolt.Tx) error) error, fn func(*bolt.Tx) error) error {
	if df.stuck.Load() {
		return errStuck
	}
	var tx *bolt.Tx
	panicked := true
	err := recoverFault(func() error {
		err := run(func(began *bolt.Tx) error {
			tx = began
			return fn(tx)
		})
		panicked = false
		return err
	})
	if panicked && (tx == nil || tx.DB() != nil) {
		df.stuck.Store(true)
		df.s.fail(fmt.Errorf("the data file can be used no more, and the log has everything: %w",
			err))
	}
	return err
}

var errStuck = fmt.Errorf("%w: meta pages of the data file, which can be used no more", ErrCorrupt)

// DataFile is the file through which the data file is written.
type DataFile interface {
	io.WriterAt
	// Sync makes what was written durable.
	Sync() error
}

type osData struct{ *os.File }

func (f osData) Sync() error { return vfs.Sync(f.File) }

// mappedLen returns how many bytes bbolt has mapped, which its file may use without a new mapping.
// It changes only while no transaction is open. bbolt has no call for that, so mappedLen reads a
// private field.
func mappedLen(db *bolt.DB) int64 { return reflect.ValueOf(db).Elem().FieldByName("datasz").Int() }

// intercept makes bbolt write through f, with bbolt's usual syncs before and after the meta page.
// bbolt has no option for that, so intercept sets a private field. It is for tests.
func intercept(db *bolt.DB, f DataFile) {
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

// rewriteMeta makes the data file's present content and its name durable. It writes the meta pages
// again, since a sync does nothing for a page whose last sync has failed; the pages that they lead
// to were synced before the meta page was written.
func (df *dataFile) rewriteMeta(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	metas := make([]byte, 2*format.PageSize)
	_, err = io.ReadFull(file, metas)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if _, err := df.mu.out.WriteAt(metas, 0); err != nil {
		return fmt.Errorf("storage: %s: %w", path, err)
	}
	if err := df.mu.out.Sync(); err != nil {
		return fmt.Errorf("storage: %s: %w", path, err)
	}
	return df.syncDir()
}

// failedCommit finds out whether a transaction whose commit failed is in the file. It returns nil
// if the transaction is durable.
func (df *dataFile) failedCommit(id int, failed error) error {
	last := 0
	err := df.view(func(tx *bolt.Tx) error {
		last = tx.ID()
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w; %w", errUncertain, failed, err)
	case last < id:
		return failed // its meta page is not in the file, or not whole
	case errors.Is(failed, syscall.EINTR):
		// Only the last sync failed. bbolt has lost track of the freed pages that readers still
		// use, so there must be no readers.
		df.mu.Lock()
		defer df.mu.Unlock()
		df.snapshots.giveUp(func(*FileSnapshot) error {
			return errors.New("a sync of the data file was interrupted")
		})
		if err := df.mu.out.Sync(); err != nil {
			return fmt.Errorf("%w: %w", errUncertain, err)
		}
		return nil
	}
	return fmt.Errorf("%w: %w", errUncertain, failed)
}

// giveBack cuts off the pages that a transaction which found no room has written after the pages in
// use. These pages are never read, and others need the room.
func (df *dataFile) giveBack() error {
	return df.view(func(tx *bolt.Tx) error {
		path := tx.DB().Path()
		if info, err := os.Stat(path); err != nil || info.Size() <= tx.Size() {
			return err
		}
		return os.Truncate(path, tx.Size())
	})
}

// updateNew runs fn in a write transaction of a file that is not in use yet and is thrown away on
// failure. fn runs again if a signal interrupts the commit, which may have happened all the same.
func updateNew(db *bolt.DB, fn func(*bolt.Tx) error) error {
	return vfs.Uninterrupted(func() error { return db.Update(fn) })
}

// syncDir makes the names in the data directory durable.
func (df *dataFile) syncDir() error { return df.s.options.FS.SyncDir(df.s.options.Dir) }

// makeDir creates the data directory and missing directories above it.
func (s *Store) makeDir() error {
	if err := os.MkdirAll(s.options.Dir, 0o700); err != nil {
		return err
	}
	return s.options.FS.MkdirAll(s.options.Dir) // FS need not be the system's
}

// syncPath makes the directories on the path to the data directory durable: this process, or one
// that was killed, may have created them. It runs before the data file gets its name, so it is not
// needed where a data file exists. A directory that cannot be opened or synced is skipped: such a
// process could not have created anything in it.
func (df *dataFile) syncPath() error {
	dir, err := filepath.Abs(df.s.options.Dir)
	if err != nil {
		return err
	}
	for above := filepath.Dir(dir); above != dir; dir, above = above, filepath.Dir(above) {
		err := df.s.options.FS.SyncDir(above)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) ||
			errors.Is(err, syscall.EINVAL) {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}
