// Package datafile implements the data file of a store, which is a file of bbolt. It verifies data
// before the store relies on it, and returns damaged pages and bad sectors as errors. It compacts
// the file, and copies it for other servers while it is written. The package knows the buckets and
// the checksums of their entries (package format). It does not know the keys in memory.
package datafile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"keyp/internal/progress"
	"keyp/internal/vfs"
	"keyp/storage/format"
)

// One write decides the content of the data file. bbolt writes the pages of a transaction where no
// page is in use, and syncs. Then it writes one of its two meta pages, which leads to them, and
// syncs again. If any of this fails it undoes the transaction in memory, and the file may contain
// it all the same. So:
//
//   - A failure before the write of the meta page leaves free pages, and the file as it was. The
//     store waits for room on a full disk.
//   - After a later failure the content of the disk is unknown, and the view that memory has of the
//     file may be wrong (ErrUncertain). The store ends: the log has everything that was
//     acknowledged, and the next start begins with the state in the file.
//   - That start may read data that were never synced, or whose sync has failed, since the kernel
//     shows both. The log releases segments because of the state in the file, so the file is made
//     durable first (Secure).

// ErrUncertain is the error of a commit if it is unknown whether the transaction is in the data
// file.
var ErrUncertain = errors.New("it is not known whether the data file has the last transaction; the log has it, and the next start finds out")

// errStuck is the error of a file whose locks bbolt does not release any more.
var errStuck = fmt.Errorf("%w: meta pages of the data file, which can be used no more",
	format.ErrCorrupt)

// Options are the settings of a data file. Dir, FS, Logger and Fail are required.
type Options struct {
	Dir      string
	FS       vfs.FS // for directories
	ReadOnly bool
	// Member: a snapshot that is received must be of a member of a group.
	Member      bool
	InitialMmap int // bytes
	Logger      *slog.Logger
	Progress    *progress.Meter // nil: no progress is shown
	// Fail is called if the file can be used no more.
	Fail func(error)
	// Pause waits for a time, so that clients can use the disk; nil: there are no clients.
	Pause func(context.Context, time.Duration)

	// For tests. Both may be nil.
	OnStep func(Step) error                      // see Step
	OnFile func(path string, file Writer) Writer // returns what to write to instead of file
}

// Step is a moment at which a test may look at a data file or interrupt the work on it. The
// goroutine that does the work comes to it without locks, except for those of the caller. An error
// ends the work.
type Step string

// The steps of writing a data file, of a compaction, and of sending and receiving a snapshot.
const (
	StepWrite   Step = "write"   // a transaction is about to be written
	StepWritten Step = "written" // it is on disk
	StepMade    Step = "made"    // a new data file is complete, under another name
	StepNamed   Step = "named"   // it has its name, which may not be durable yet

	StepBatch   Step = "batch"   // a batch is in the copy
	StepProving Step = "proving" // a part of the copy is proven
	StepProven  Step = "proven"  // all of it is
	// The copy has the data file's name, which may not be durable yet.
	StepRenamed  Step = "renamed"
	StepReplaced Step = "replaced" // the store uses it

	StepPiece Step = "piece" // a piece of a snapshot was read, or written
	// The received file has the data file's name, which may not be durable yet.
	StepTaken Step = "taken"
)

func (o *Options) step(at Step) error {
	if o.OnStep == nil {
		return nil
	}
	return o.OnStep(at)
}

// Writer is the file through which a data file is written.
type Writer interface {
	io.WriterAt
	// Sync makes what was written durable.
	Sync() error
}

type osFile struct{ *os.File }

func (f osFile) Sync() error { return vfs.Sync(f.File) }

// File is a data file. The caller lets one goroutine at a time write: Update, Make, Secure,
// Compact, Replace, OpenSnapshot and Close.
type File struct {
	o         Options
	snapshots snapshots
	// The fields change only in a writer's call, so writers need no lock to use them.
	mu struct {
		sync.RWMutex
		db  *bolt.DB
		out Writer // the file below it
	}
	stuck   atomic.Bool // bbolt keeps its locks: the file can be neither used nor closed
	syncing atomic.Bool // a transaction is being synced
}

// New returns the data file of a directory. It is not open.
func New(o Options) *File { return &File{o: o} }

// DB returns the open file of bbolt. It is for tests.
func (f *File) DB() *bolt.DB { return f.mu.db }

// Syncing reports whether a transaction of Update is being synced.
func (f *File) Syncing() bool { return f.syncing.Load() }

// Update runs fn in a write transaction. fn runs again if a signal interrupts the commit. After
// ErrUncertain the file must not be written again: its state in memory may be wrong.
func (f *File) Update(fn func(*bolt.Tx) error) error {
	if err := f.o.step(StepWrite); err != nil {
		return err
	}
	if err := vfs.Uninterrupted(func() error { return f.commit(fn) }); err != nil {
		return err
	}
	return f.o.step(StepWritten)
}

// Close closes the file, if it is open.
func (f *File) Close() error {
	switch {
	case f.stuck.Load():
		return errStuck // its end is the process's
	case f.mu.db == nil:
		return nil
	}
	return f.mu.db.Close()
}

// syncDir makes the names in the data directory durable.
func (f *File) syncDir() error { return f.o.FS.SyncDir(f.o.Dir) }

// View runs fn in a read transaction of the data file. fn must not call it again: a
// compaction that is about to replace the file would stop both.
func (f *File) View(fn func(*bolt.Tx) error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.transact(f.mu.db.View, fn)
}

// transact runs fn in a transaction by run, which is View or Update of the data file. Faults become
// errors, as in recoverFault. If bbolt panics over a damaged meta page while it begins or rolls
// back a transaction, it keeps its locks. Later users of the file would wait for ever, so the store
// fails then.
func (f *File) transact(run func(func(*bolt.Tx) error) error, fn func(*bolt.Tx) error) error {
	if f.stuck.Load() {
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
		f.stuck.Store(true)
		f.o.Fail(fmt.Errorf("the data file can be used no more, and the log has everything: %w",
			err))
	}
	return err
}

// viewRecovering runs fn in a read transaction, and recovers from faults as recoverFault does.
func viewRecovering(db *bolt.DB, fn func(*bolt.Tx) error) error {
	return recoverFault(func() error { return db.View(fn) })
}

// recoverFault runs a function that uses bbolt. A fault or a panic on a damaged page becomes an
// error: the file is mapped, so a bad sector causes a fault. bbolt rolls its transaction back then.
func recoverFault(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", format.ErrCorrupt, p)
		}
	}()
	if err = fn(); errors.Is(err, bolterrors.ErrIncompatibleValue) {
		// An entry says that it is a bucket.
		err = fmt.Errorf("%w: %w", format.ErrCorrupt, err)
	}
	return err
}

// failedCommit finds out whether a transaction whose commit failed is in the file. It returns nil
// if the transaction is durable.
func (f *File) failedCommit(id int, failed error) error {
	last := 0
	err := f.View(func(tx *bolt.Tx) error {
		last = tx.ID()
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w; %w", ErrUncertain, failed, err)
	case last < id:
		return failed // its meta page is not in the file, or not whole
	case errors.Is(failed, syscall.EINTR):
		// Only the last sync failed. bbolt has lost track of the freed pages that readers still
		// use, so there must be no readers.
		f.snapshots.giveUp(func(*Snapshot) error {
			return errors.New("a sync of the data file was interrupted")
		})
		f.mu.Lock()
		defer f.mu.Unlock()
		if err := f.mu.out.Sync(); err != nil {
			return fmt.Errorf("%w: %w", ErrUncertain, err)
		}
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUncertain, failed)
}

// GiveBack cuts off the pages that a transaction which found no room has written after the pages in
// use. These pages are never read, and others need the room.
func (f *File) GiveBack() error {
	return f.View(func(tx *bolt.Tx) error {
		path := tx.DB().Path()
		if info, err := os.Stat(path); err != nil || info.Size() <= tx.Size() {
			return err
		}
		return os.Truncate(path, tx.Size())
	})
}

// Secure makes the data file's present content and its name durable. It writes the meta pages
// again, because a sync does nothing for a page whose last sync has failed. The pages that the meta
// pages lead to were synced before the meta pages were written.
func (f *File) Secure() error { return vfs.Uninterrupted(f.secure) }

func (f *File) secure() error {
	path := f.Path()
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	metas := make([]byte, 2*format.PageSize)
	_, err = io.ReadFull(file, metas)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if _, err := f.mu.out.WriteAt(metas, 0); err != nil {
		return fmt.Errorf("storage: %s: %w", path, err)
	}
	if err := f.mu.out.Sync(); err != nil {
		return fmt.Errorf("storage: %s: %w", path, err)
	}
	return f.syncDir()
}

// syncPath makes the directories on the path to the data directory durable: this process, or one
// that was killed, may have created them. It runs before the data file gets its name, so it is not
// needed where a data file exists. A directory that cannot be opened or synced is skipped: such a
// process could not have created anything in it.
func (f *File) syncPath() error {
	dir, err := filepath.Abs(f.o.Dir)
	if err != nil {
		return err
	}
	for above := filepath.Dir(dir); above != dir; dir, above = above, filepath.Dir(above) {
		err := f.o.FS.SyncDir(above)
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

// updateNew runs fn in a write transaction of a file that is not in use yet and is thrown away on
// failure. If a signal interrupts the commit, fn runs again, although the commit may have happened.
func updateNew(db *bolt.DB, fn func(*bolt.Tx) error) error {
	return vfs.Uninterrupted(func() error { return db.Update(fn) })
}

// commit runs one attempt of Update.
func (f *File) commit(fn func(*bolt.Tx) error) error {
	defer f.syncing.Store(false)
	committing := 0 // the transaction
	err := f.transact(f.mu.db.Update, func(tx *bolt.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		committing = tx.ID()
		f.syncing.Store(true)
		return nil
	})
	if err != nil && committing != 0 {
		err = f.failedCommit(committing, err)
	}
	return err
}

// Use returns the length of the data file (0 if it cannot be examined), and the unused part of it
// as of the last transaction.
func (f *File) Use() (size, unused int64) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if info, err := os.Stat(f.mu.db.Path()); err == nil {
		size = info.Size()
	}
	return size, int64(f.mu.db.Stats().FreeAlloc)
}
