package datafile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	bolt "go.etcd.io/bbolt"

	"keyp/internal/boltfile"
	"keyp/internal/clock"
	"keyp/storage/format"
	"keyp/storage/snapshotfile"
)

// A snapshot of the data file is sent to a member that joins its group, or kept as a backup, while
// keys are read and written. A read transaction of bbolt keeps all pages of one moment unchanged.
// They are read with a system call and not through the mapping, so that other goroutines run while
// the disk works. Free pages are left out.
//
// In the data file, and so in its copy, some keys are newer than others: a checkpoint writes one
// key after the other, while they change. So a copy needs the log from the beginning of its last
// checkpoint on. After the log is replayed up to Header.Through, the copy has the state of one
// moment.
//
// A snapshot is not free. bbolt cannot reuse the pages that its transaction keeps, so checkpoints
// make the file longer. Before bbolt maps more of the file, it waits for the transaction, and all
// readers of the file wait for that. So the owner of the file often calls GiveUp, which ends a
// snapshot that has become too expensive: its Send fails. A compaction must not begin while a
// snapshot is open.

// ErrStopped wraps the reason why a snapshot was given up.
var ErrStopped = errors.New("storage: the snapshot was given up")

// Snapshot is an open snapshot. Only one goroutine may use it, and must close it soon.
type Snapshot struct {
	// Header describes the content; its Note may be set before Send.
	Header snapshotfile.Header
	// Mapped is how much of the file bbolt maps until the transaction ends, in bytes.
	Mapped int64

	f  *File
	tx *bolt.Tx
	// Both meta pages of the transaction's state. The meta pages in the file soon belong to later
	// transactions.
	metas []byte
	free  []uint64
	file  io.ReaderAt

	watch   Watch
	stopped atomic.Pointer[error] // why the snapshot was given up; set before its transaction ends
	end     func() error          // ends the transaction, once
}

// Watch is what the owner of a data file does with a snapshot.
type Watch struct {
	// Outgrown returns the reason if the snapshot must be given up, and nil otherwise.
	Outgrown func() error
	// LetGo is called at the end of the snapshot, and when it is given up. It may be called twice.
	LetGo func() error
}

// snapshots are the watched snapshots. mu is locked before File.mu: a reason to give a snapshot up
// is looked for while it is locked.
type snapshots struct {
	mu struct {
		sync.Mutex
		open map[*Snapshot]bool
	}
}

// AnySnapshot reports whether a watched snapshot is open.
func (f *File) AnySnapshot() bool {
	o := &f.snapshots
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.mu.open) > 0
}

// GiveUp ends the transactions of the snapshots that are outgrown. Any goroutine may call it.
func (f *File) GiveUp() {
	if f.stuck.Load() {
		return // the end of a transaction would wait for bbolt's locks
	}
	f.snapshots.giveUp(func(sn *Snapshot) error { return sn.watch.Outgrown() })
}

// giveUp ends the transactions of the snapshots for which why gives a reason.
func (o *snapshots) giveUp(why func(*Snapshot) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for sn := range o.mu.open {
		if err := why(sn); err != nil {
			err = fmt.Errorf("%w: %w", ErrStopped, err)
			sn.stopped.CompareAndSwap(nil, &err)
			_ = sn.end()         // Close returns it too
			_ = sn.watch.LetGo() // Close calls it too
		}
	}
}

// OpenSnapshot begins a snapshot of the data file. The caller calls Watch soon, and keeps the log
// after Header.Position: the receiver continues with it. The header has no Through and no Time.
func (f *File) OpenSnapshot() (*Snapshot, error) {
	file, ok := f.mu.out.(io.ReaderAt)
	if !ok {
		return nil, errors.New("storage: the data file cannot be read beside bbolt")
	}
	var tx *bolt.Tx
	begin := func(opened func(*bolt.Tx) error) (err error) {
		if tx, err = f.mu.db.Begin(false); err == nil {
			err = opened(tx)
		}
		return err
	}
	if err := f.transact(begin, func(*bolt.Tx) error { return nil }); err != nil {
		return nil, err
	}
	none := func() error { return nil }
	sn := &Snapshot{f: f, tx: tx, file: file, Mapped: mappedLen(tx.DB()),
		watch: Watch{none, none}, end: sync.OnceValue(tx.Rollback)}
	if err := recoverFault(sn.begin); err != nil {
		return nil, errors.Join(err, sn.end())
	}
	return sn, nil
}

// Watch makes GiveUp look at the snapshot until it is closed. It is called once.
func (sn *Snapshot) Watch(w Watch) {
	sn.watch = w
	open := &sn.f.snapshots.mu
	open.Lock()
	defer open.Unlock()
	if open.open == nil {
		open.open = map[*Snapshot]bool{}
	}
	open.open[sn] = true
}

// begin sets the header, the meta pages and the list of free pages from the transaction.
func (sn *Snapshot) begin() error {
	if err := sn.readMetas(); err != nil {
		return err
	}
	file, err := boltfile.Open(sn, sn.tx.Size(), format.PageSize)
	if err == nil {
		sn.free, err = file.FreeList()
	}
	if err != nil {
		return sn.f.damaged(sn.tx.DB().Path(), err)
	}
	meta, err := readMeta(sn.tx)
	if err != nil {
		return err
	}
	st := &meta.State
	sn.Header = snapshotfile.Header{
		DataFormat: format.Version, PageSize: format.PageSize,
		Size:   int64(file.Pages()) * format.PageSize,
		Member: st.Member, Segment: st.First, Position: st.Position,
	}
	for _, c := range st.Counts {
		if c.Space != format.SystemSpace {
			sn.Header.Keys, sn.Header.Deadlines = sn.Header.Keys+c.Keys,
				sn.Header.Deadlines+c.Expires
		}
	}
	return nil
}

// errMetas ends WriteTo after the meta pages.
var errMetas = errors.New("these are the meta pages")

func (sn *Snapshot) readMetas() error {
	_, err := sn.tx.WriteTo(writerFunc(func(b []byte) (int, error) {
		if sn.metas = append(sn.metas, b...); len(sn.metas) >= 2*format.PageSize {
			return len(b), errMetas
		}
		return len(b), nil
	}))
	if len(sn.metas) != 2*format.PageSize {
		// Otherwise the error is errMetas, which bbolt does not wrap.
		return fmt.Errorf("storage: the meta pages of a transaction are %d bytes: %w",
			len(sn.metas), err)
	}
	return nil
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// ReadAt reads the transaction's file.
func (sn *Snapshot) ReadAt(b []byte, at int64) (n int, err error) {
	if at < int64(len(sn.metas)) {
		if n = copy(b, sn.metas[at:]); n == len(b) {
			return n, nil
		}
	}
	more, err := sn.file.ReadAt(b[n:], at+int64(n))
	return n + more, err
}

// Send writes the snapshot to w. records, if it is not nil, writes the sender's own records after
// the pages. Send pauses while it reads the pages, so that others have two thirds of the time. It
// needs memory for one piece. An error of ctx ends it.
func (sn *Snapshot) Send(ctx context.Context, w io.Writer,
	records func(*snapshotfile.Writer) error) error {
	to, err := snapshotfile.NewWriter(w, sn.Header)
	if err != nil {
		return err
	}
	if err := sn.sendPages(ctx, to); err != nil {
		return err
	}
	if err := sn.end(); err != nil { // no checkpoint waits while records are sent
		return err
	}
	if records != nil {
		if err := records(to); err != nil {
			return err
		}
	}
	return to.End()
}

func (sn *Snapshot) sendPages(ctx context.Context, to *snapshotfile.Writer) error {
	free, buf := sn.free, make([]byte, snapshotfile.MaxPiece)
	pages, most := sn.Header.Size/format.PageSize, int64(snapshotfile.MaxPiece/format.PageSize)
	for at := int64(0); at < pages; {
		if len(free) > 0 && int64(free[0]) == at {
			free = free[1:]
			at++
			continue
		}
		end := min(at+most, pages)
		if len(free) > 0 {
			end = min(end, int64(free[0]))
		}
		began := clock.System.Mono()
		piece := buf[:(end-at)*format.PageSize]
		n, failed := sn.ReadAt(piece, at*format.PageSize)
		if err := sn.May(ctx); err != nil {
			// This is after the read: the pages were those of the transaction.
			return err
		}
		if n < len(piece) {
			return fmt.Errorf("storage: the data file from page %d on: %w", at, failed)
		}
		took := clock.System.Mono() - began
		if err := to.Piece(at*format.PageSize, piece); err != nil {
			return err
		}
		if sn.f.o.Pause != nil {
			sn.f.o.Pause(ctx, 2*took)
		}
		at = end
	}
	return nil
}

// May returns the error because of which no further piece may be sent, or nil.
func (sn *Snapshot) May(ctx context.Context) error {
	if err := sn.f.o.step(StepPiece); err != nil {
		return err
	}
	if err := sn.stopped.Load(); err != nil {
		return *err
	}
	return ctx.Err()
}

// Close ends the snapshot.
func (sn *Snapshot) Close() error {
	open := &sn.f.snapshots.mu
	open.Lock()
	defer open.Unlock()
	delete(open.open, sn)
	return errors.Join(sn.end(), sn.watch.LetGo())
}
