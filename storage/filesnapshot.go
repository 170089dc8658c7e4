package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"keyp/internal/boltfile"
	"keyp/storage/format"
	"keyp/storage/snapshotfile"
)

// A snapshot of the data file is sent to a member that joins its group, or kept as a backup, while
// keys are read and written. A read transaction of bbolt keeps all pages of one moment unchanged.
// They are read with a system call and not through the mapping, so that other goroutines run while
// the disk works. Free pages are left out.
//
// The data file is always newer in places than its state's position, and so is its copy. So it
// needs the log from that position on. After the log is replayed up to Header.Through, it has the
// state of one moment again.
//
// bbolt cannot reuse the pages that the transaction keeps, so checkpoints make the file longer.
// Before bbolt maps more of the file, it waits for the transaction, and all readers of the file
// wait for the mapping. So the transaction ends, and the snapshot with an error, in these cases:
//
//   - the file has grown by more than snapshotGrowth, or nearly to the end of the mapping;
//   - more than snapshotGrowth of the log is kept for it;
//   - the disk is nearly full;
//   - the store is closed.
//
// Housekeeping looks for these cases and ends the transaction, since Send may be waiting for a slow
// reader. A compaction would have to wait for a snapshot; it gives up instead.

const (
	// snapshotGrowth is how much longer the data file may get while a snapshot is open; for a large
	// file it is half of the length.
	snapshotGrowth = 1 << 30
	// mapMargin is the room for the growth of the file between two rounds of housekeeping; for a
	// small mapping it is an eighth of the mapping.
	mapMargin    = 256 << 20
	receivedFile = format.DataName + ".received"
)

// errSnapshotStopped wraps the reason why a snapshot was given up.
var errSnapshotStopped = errors.New("storage: the snapshot was given up")

// FileSnapshot is an open snapshot. Only one goroutine may use it, and must close it soon.
type FileSnapshot struct {
	// Header describes the content; its Note may be set before Send.
	Header snapshotfile.Header

	s      *Store
	tx     *bolt.Tx
	mapped int64 // how much of the file bbolt maps until the transaction ends
	// Both meta pages of the transaction's state; the file's own are of later ones soon.
	metas []byte
	free  []uint64
	file  io.ReaderAt

	kept KeptLog // of a backup; nil: the caller keeps the log

	stopped atomic.Pointer[error] // why the snapshot was given up; set before its transaction ends
	end     func() error          // ends the transaction, once
}

// snapshots are the open snapshots.
type snapshots struct {
	mu struct {
		sync.Mutex
		open map[*FileSnapshot]bool
	}
}

// any reports whether a snapshot is open. None is opened while checkpointer.mu is locked.
func (o *snapshots) any() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.mu.open) > 0
}

// giveUp ends the transactions of the snapshots for which why gives a reason.
func (o *snapshots) giveUp(why func(*FileSnapshot) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for sn := range o.mu.open {
		if err := why(sn); err != nil {
			err = fmt.Errorf("%w: %w", errSnapshotStopped, err)
			sn.stopped.CompareAndSwap(nil, &err)
			_ = sn.end()   // Close returns it too
			_ = sn.letGo() // the segments go with the next checkpoint
		}
	}
}

// OpenSnapshot takes a snapshot of the data file between two checkpoints; it waits for one that is
// under way. The caller must keep the log after Header.Position: the receiver continues with it.
func (s *Store) OpenSnapshot() (*FileSnapshot, error) { return s.openSnapshot(nil) }

// openSnapshot takes a snapshot as OpenSnapshot does. If log is not nil, it also keeps the part of
// log that the snapshot needs.
func (s *Store) openSnapshot(log BackupLog) (*FileSnapshot, error) {
	s.checkpointer.mu.Lock()
	defer s.checkpointer.mu.Unlock()
	if err := s.Err(); err != nil {
		return nil, err
	}
	if s.quit.Err() != nil {
		return nil, ErrClosed
	}
	file, ok := s.file.mu.out.(io.ReaderAt)
	if !ok {
		return nil, errors.New("storage: the data file cannot be read beside bbolt")
	}
	var tx *bolt.Tx
	begin := func(opened func(*bolt.Tx) error) (err error) {
		if tx, err = s.file.mu.db.Begin(false); err == nil {
			err = opened(tx)
		}
		return err
	}
	if err := s.file.transact(begin, func(*bolt.Tx) error { return nil }); err != nil {
		return nil, err
	}
	sn := &FileSnapshot{s: s, tx: tx, file: file, mapped: mappedLen(tx.DB()),
		end: sync.OnceValue(tx.Rollback)}
	err := recoverFault(sn.begin)
	if err == nil {
		err = sn.outgrown()
	}
	if err != nil {
		return nil, errors.Join(err, sn.end())
	}
	if log != nil { // no checkpoint releases a segment meanwhile
		sn.kept = log.Keep(LogPosition{sn.Header.Segment, sn.Header.Position})
	}
	open := &s.file.snapshots.mu
	open.Lock()
	defer open.Unlock()
	if open.open == nil {
		open.open = map[*FileSnapshot]bool{}
	}
	open.open[sn] = true
	return sn, nil
}

// begin sets the header, the meta pages and the list of free pages from the transaction.
func (sn *FileSnapshot) begin() error {
	s := sn.s
	if err := sn.readMetas(); err != nil {
		return err
	}
	file, err := boltfile.Open(sn, sn.tx.Size(), format.PageSize)
	if err == nil {
		sn.free, err = file.FreeList()
	}
	if err != nil {
		return s.file.damaged(sn.tx.DB().Path(), err)
	}
	_, st, err := parseMeta(sn.tx) // and not readMeta: the store is in use
	if err != nil {
		return err
	}
	sn.Header = snapshotfile.Header{
		DataFormat: format.Version, PageSize: format.PageSize,
		Size:   int64(file.Pages()) * format.PageSize,
		Member: st.Member, Segment: st.First, Position: st.Position, Through: s.log.Durable(),
		Time: s.clock.Now(),
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

func (sn *FileSnapshot) readMetas() error {
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
func (sn *FileSnapshot) ReadAt(b []byte, at int64) (n int, err error) {
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
func (sn *FileSnapshot) Send(ctx context.Context, w io.Writer,
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

func (sn *FileSnapshot) sendPages(ctx context.Context, to *snapshotfile.Writer) error {
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
		began := workBegan()
		piece := buf[:(end-at)*format.PageSize]
		n, failed := sn.ReadAt(piece, at*format.PageSize)
		if err := sn.may(ctx); err != nil {
			// Behind the read: the pages were those of the transaction.
			return err
		}
		if n < len(piece) {
			return fmt.Errorf("storage: the data file from page %d on: %w", at, failed)
		}
		took := workBegan() - began
		if err := to.Piece(at*format.PageSize, piece); err != nil {
			return err
		}
		sn.pause(ctx, 2*took)
		at = end
	}
	return nil
}

// pause waits so that other goroutines can use the disk. It ends early when ctx or the store ends.
func (sn *FileSnapshot) pause(ctx context.Context, wait time.Duration) {
	if sn.s.options.NoBackground {
		return
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	case <-sn.s.quit.Done():
	}
}

// may returns the error because of which no further piece may be sent, or nil.
func (sn *FileSnapshot) may(ctx context.Context) error {
	if err := sn.s.options.Testing.step(StepPiece); err != nil {
		return err
	}
	if err := sn.stopped.Load(); err != nil {
		return *err
	}
	return ctx.Err()
}

// outgrown returns an error with the reason if the snapshot's transaction must end, and nil
// otherwise.
func (sn *FileSnapshot) outgrown() error {
	s := sn.s
	size, _ := s.file.use()
	held, most := int64(0), max(s.bounds.snapshotGrowth, sn.Header.Size/2)
	if sn.kept != nil {
		held = sn.kept.Bytes()
	}
	switch grown := size - sn.Header.Size; {
	case s.quit.Err() != nil:
		return ErrClosed
	case size > sn.mapped-min(mapMargin, sn.mapped/8):
		return fmt.Errorf(
			"the data file has %d bytes, and the server has room for %d: start it again",
			size, sn.mapped)
	case grown > most:
		return fmt.Errorf("the data file has become %d bytes longer", grown)
	case held > most:
		return fmt.Errorf("%d bytes of the log are kept for it", held)
	case s.spaceIsLow():
		return errors.New("the disk is nearly full")
	}
	return nil
}

// Close ends the snapshot.
func (sn *FileSnapshot) Close() error {
	open := &sn.s.file.snapshots.mu
	open.Lock()
	defer open.Unlock()
	delete(open.open, sn)
	return errors.Join(sn.end(), sn.letGo())
}

// letGo ends the keeping of the log for the snapshot.
func (sn *FileSnapshot) letGo() error {
	if sn.kept == nil {
		return nil
	}
	return sn.kept.LetGo()
}

// Receive makes the output of Send the data file of the directory o.Dir, which no store has open.
// It replaces an existing file. records, if it is not nil, gets each of the sender's records.
// segment is the first segment of the log that will be used with the file. The file gets its name
// after all of it was received, is proven and on disk. Before that, and after an error, the
// directory keeps its content. After an error of the last sync it has either the old or the new
// file.
func Receive(o Options, r io.Reader, segment uint64,
	records func(position uint64, b []byte) error) (h snapshotfile.Header, err error) {
	return receiveAs(o, r, segment, false, records)
}

// receiveAs does the work of Receive. If alone is true, the data file becomes that of a server that
// is alone, even if the snapshot is a member's.
func receiveAs(o Options, r io.Reader, segment uint64, alone bool,
	records func(position uint64, b []byte) error) (h snapshotfile.Header, err error) {
	if err := o.Complete(); err != nil {
		return h, err
	}
	s := &Store{options: o, clock: o.Clock, bounds: o.Testing.bounds()}
	s.quit, s.stop = context.WithCancel(context.Background())
	defer s.stop()
	s.options.NoBackground = true // there are no clients to pause for
	s.file.s, s.checkpointer.s = s, s
	if err := s.lockDir(); err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, s.dirLock.Close()) }()
	path := filepath.Join(o.Dir, receivedFile)
	if err := removeFile(path); err != nil {
		return h, err
	}
	if h, err = s.file.receive(path, r, segment, alone, records); err != nil {
		return h, errors.Join(err, removeFile(path))
	}
	if err := s.file.syncPath(); err != nil {
		return h, errors.Join(err, removeFile(path))
	}
	if err := os.Rename(path, filepath.Join(o.Dir, format.DataName)); err != nil {
		return h, errors.Join(err, removeFile(path))
	}
	if err := o.Testing.step(StepTaken); err != nil {
		return h, err
	}
	return h, s.file.syncDir()
}

// receive writes the file at path from a stream, and proves it.
func (df *dataFile) receive(path string, r io.Reader, segment uint64, alone bool,
	records func(uint64, []byte) error) (h snapshotfile.Header, err error) {
	from, err := snapshotfile.NewReader(r)
	if err != nil {
		return h, err
	}
	h = from.Header
	if h.DataFormat != format.Version || h.PageSize != format.PageSize {
		return h,
			fmt.Errorf("%w: the snapshot is of format %d with pages of %d bytes, and this version writes %d with %d",
				ErrFormat, h.DataFormat, h.PageSize, format.Version, format.PageSize)
	}
	if h.Member != df.s.options.Member && !alone {
		return h,
			fmt.Errorf("storage: a snapshot is of a member of a group or not, as the directory is to be: %t and %t",
				h.Member, df.s.options.Member)
	}
	if err := df.receiveParts(path, from, records); err != nil {
		return h, err
	}
	if err := df.prove(path); err != nil {
		return h, err
	}
	db, _, err := df.openBolt(path)
	if err != nil {
		return h, err
	}
	df.mu.db = db
	defer func() { err = errors.Join(err, db.Close()); df.mu.db = nil }()
	if err := df.proveTree(); err != nil {
		return h, err
	}
	c := compaction{s: df.s, to: db}
	if err := viewRecovering(db, c.prove); err != nil {
		return h, df.damaged(path, err)
	}
	again := func(*bolt.Tx) error { return nil } // as commitAgain
	return h, errors.Join(updateNew(db, func(tx *bolt.Tx) error {
		return df.setLog(tx, &h, segment, alone)
	}), updateNew(db, again))
}

// receiveParts writes and syncs all pieces, and passes records on.
func (df *dataFile) receiveParts(path string, from *snapshotfile.Reader,
	records func(uint64, []byte) error) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Truncate(from.Header.Size); err != nil {
		return err
	}
	out := DataFile(osData{file})
	if on := df.s.options.Testing.OnData; on != nil {
		out = on(path, out)
	}
	for {
		p, err := from.Next()
		switch {
		case err == io.EOF:
			return out.Sync()
		case err != nil:
			return err
		case !p.Record:
			_, err = out.WriteAt(p.Bytes, int64(p.At))
		case records != nil:
			err = records(p.At, p.Bytes)
		}
		if err == nil {
			err = df.s.options.Testing.step(StepPiece)
		}
		if err != nil {
			return err
		}
	}
}

// setLog writes into the received file's state the first segment of its log, and whether the log is
// a member's.
func (df *dataFile) setLog(tx *bolt.Tx, h *snapshotfile.Header, segment uint64, alone bool) error {
	var st format.State
	if err := df.readMeta(tx, &st); err != nil {
		return err
	}
	if st.Member != h.Member || st.Position != h.Position || st.First != h.Segment {
		return fmt.Errorf(
			"%w: the snapshot's header names position %d of the log, and its state %d", ErrCorrupt,
			h.Position, st.Position)
	}
	st.First = segment
	if alone {
		st.Member, st.Position = false, 0
	}
	return putMeta(tx, format.MetaState, st.Append(nil))
}
