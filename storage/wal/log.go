package wal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"keyp/internal/clock"
	"keyp/internal/histogram"
	"keyp/internal/progress"
	"keyp/internal/vfs"
)

// Policy defines when a batch may be acknowledged.
type Policy uint8

// The policies of redis.conf's appendfsync.
const (
	Always   Policy = iota // when it is synced
	EverySec               // when it is written; a sync follows each second
	No                     // when it is written; the kernel syncs when it likes
)

func (p Policy) String() string {
	switch p {
	case Always:
		return "always"
	case EverySec:
		return "everysec"
	case No:
		return "no"
	}
	return fmt.Sprintf("policy(%d)", uint8(p))
}

const (
	// DefaultSegmentSize is the size of a segment file in bytes.
	DefaultSegmentSize = 64 << 20
	// DefaultFirstSize is the size of the first segments.
	DefaultFirstSize = 4 << 20
	// DefaultSpares is how many released segments are kept for use as new ones.
	DefaultSpares = 4
)

// Options are the settings of a log. FS, Dir and Clock are required.
type Options struct {
	FS     vfs.FS
	Dir    string // made if missing, in a directory that is durable
	Clock  clock.Clock
	Logger *slog.Logger // slog.Default() if nil
	Policy Policy
	// SegmentSize is the size of a segment file in bytes, header included;
	// DefaultSegmentSize if 0.
	SegmentSize int64
	// FirstSize is the size of the first segments; DefaultFirstSize if 0. The more a log has
	// had to keep, the larger is its next segment, up to SegmentSize. So little data takes
	// little room, and a start does not wait until much is filled with zeros.
	FirstSize int64
	// Spares is how many released segments are kept; DefaultSpares if 0.
	Spares int
	// KeepFrom is a position, or 0. Open keeps the existing segments that have the log from there
	// on, even if no recovery needs them any more. A call of Hold should follow. With 0 it keeps
	// none.
	KeepFrom uint64
	// New allows that there is no segment although first names one. The log then begins with that
	// segment.
	New bool
	// Replayed, if set, is called when Open has passed all batches to replay, before it changes
	// anything; an error ends Open.
	Replayed func() error
	// OnDurable is called with each new value of Durable, outside of all locks, by the
	// goroutine that advanced it: a caller of Commit, or one of the log's own. Two calls may
	// arrive in the wrong order: a smaller lsn than before means nothing.
	OnDurable func(lsn uint64)
	// OnFail is called once, with the first fatal failure, on a goroutine of its own.
	OnFail func(error)
	// NoBackground starts no goroutine, for tests that choose the order of all that
	// happens: Commit and Settled also sync and prepare the next segment, and end
	// the log when there is no room for one. CommitAsync does nothing.
	NoBackground bool
	// Random returns the numbers that distinguish logs and lives of segments; rand.Uint64 if
	// nil.
	Random func() uint64
	// KeepFree, if set, returns how many bytes of the disk a new segment should leave free. While
	// they are not free, the log is Full.
	KeepFree func() uint64
	// Progress counts the bytes that Open reads; nil: they are not counted.
	Progress *progress.Meter
}

func (o *Options) complete() error {
	if o.SegmentSize == 0 {
		o.SegmentSize = DefaultSegmentSize
	}
	if o.FirstSize == 0 {
		o.FirstSize = DefaultFirstSize
	}
	if o.Spares == 0 {
		o.Spares = DefaultSpares
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.FirstSize < minSegmentSize {
		return fmt.Errorf("wal: size %d of the first segments is less than %d",
			o.FirstSize, minSegmentSize)
	}
	if o.SegmentSize < minSegmentSize || o.SegmentSize > 1<<31 {
		return fmt.Errorf("wal: segment size %d is not in %d..%d", o.SegmentSize,
			minSegmentSize, 1<<31)
	}
	return nil
}

func (o *Options) random() uint64 {
	if o.Random != nil {
		return o.Random()
	}
	return rand.Uint64()
}

func (o *Options) path(name string) string { return filepath.Join(o.Dir, name) }

// Log is an open log. All its methods may be called by several goroutines.
type Log struct {
	// Constant once Open has returned.
	o                                Options
	mark                             uint64 // starts each group of this log
	kickWrite, kickSync, kickPrepare chan struct{}
	quit                             chan struct{}
	background                       sync.WaitGroup

	// The locks, each with the fields that it guards, in their order: see doc.go.
	flushMu struct { // one goroutine writes
		sync.Mutex
		cur vfs.File // the segment being written; nil before the first write
	}
	syncMu sync.Mutex // one goroutine syncs
	mu     struct {
		sync.Mutex
		tail *tail
	}
	segMu struct {
		sync.Mutex
		room     *sync.Cond    // ready, full, giveUp or err changed
		unsynced []openSegment // may have bytes that are not synced, in order; the last is cur
		ready    *openSegment  // the next one
		live     []liveSegment // needed for recovery, in order
		released uint64        // those below it are being released
		needed   uint64        // those below it no recovery needs, though they may be held
		holds    map[*Hold]bool
		next     uint64 // the number to prepare next
		giveUp   bool   // nobody waits for room any more
		waiting  bool   // a commit waits for the next segment
		closed   bool
	}
	dirMu struct { // one goroutine changes the directory
		sync.Mutex
		spares []string // paths
	}

	// Written while flushMu is locked.
	written atomic.Uint64
	cost    atomic.Int64 // nanoseconds
	sizes   *histogram.Histogram
	// Written while syncMu is locked.
	synced atomic.Uint64
	syncs  *histogram.Histogram
	// Written while segMu is locked.
	full atomic.Bool
	// fitting is the largest size of a segment for the room on disk. Each call of fit writes it.
	fitting atomic.Int64
	// Any goroutine may write these; the positions only grow.
	policy  atomic.Uint32
	durable atomic.Uint64
	wanted  atomic.Uint64 // the highest position that a call of Settled asked for
	err     atomic.Pointer[error]
	moved   signal // synced or err changed
}

// Open recovers the log in o.Dir and makes it ready for appending. first is the lowest segment that
// is still needed, as Rotate or First returned it, or 0 if none was ever recorded. The segment must
// exist, unless o.New is set. Open passes each whole batch from there on to replay, in order, with
// its LSN. The bytes are valid only during the call, and an error ends Open. Segments below first
// are kept as spares, except for those that KeepFrom keeps.
//
// Open returns a *CorruptError if something that was durable is missing or changed, and then leaves
// the files as they are. Batches before that place have been replayed. Lack of room does not keep a
// log from opening; it is Full then.
func Open(o Options, first uint64, replay func(lsn uint64, batch []byte) error) (*Log, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	r, err := scan(&o, first, replay)
	if err != nil {
		return nil, err
	}
	// The directory may be one of a process that was killed before it had synced the name.
	if err := errors.Join(o.FS.MkdirAll(o.Dir), o.FS.SyncDir(filepath.Dir(o.Dir))); err != nil {
		return nil, fmt.Errorf("wal: %w", err)
	}
	if o.Replayed != nil {
		if err := o.Replayed(); err != nil {
			return nil, err
		}
	}
	kept, err := r.cut()
	if err != nil {
		return nil, err
	}
	number, start := r.resume()
	l := &Log{
		o:           o,
		mark:        r.mark,
		kickWrite:   make(chan struct{}, 1),
		kickSync:    make(chan struct{}, 1),
		kickPrepare: make(chan struct{}, 1),
		quit:        make(chan struct{}),
		sizes:       histogram.New(histogram.Sizes),
		syncs:       histogram.New(histogram.Sync),
	}
	l.segMu.room = sync.NewCond(&l.segMu.Mutex)
	l.segMu.live, l.segMu.next, l.segMu.needed = append(r.keep(), r.live()...), number, first
	l.policy.Store(uint32(o.Policy))
	l.written.Store(start)
	l.synced.Store(start)
	l.durable.Store(start)
	if err := l.collectSpares(r); err != nil {
		return nil, err
	}
	size := l.fit()
	if kept != nil {
		size = kept.size
		f, err := o.FS.Open(kept.path)
		if err != nil {
			return nil, fmt.Errorf("wal: %w", err)
		}
		l.segMu.ready, l.segMu.next = &openSegment{number: number, size: size, file: f}, number+1
	} else {
		if len(l.dirMu.spares) == 0 {
			size = min(size, o.FirstSize)
		}
		l.segMu.waiting = true // without a segment nothing can be removed, either
		if _, err := l.prepareNext(size); err != nil {
			return nil, err
		}
		l.segMu.waiting = false
	}
	l.mu.tail = newTail(r.mark, number, start, size,
		segmentSizes{first: o.FirstSize, fitting: l.fitting.Load}, o.random)
	if !o.NoBackground {
		l.background.Add(3)
		go l.writeLoop()
		go l.syncLoop()
		go l.prepareLoop()
	}
	return l, nil
}

// Append puts batch after all earlier batches and returns its LSN. It copies the
// bytes into memory and does no I/O: the batch is durable after a commit. A batch may
// be empty. A log that has failed or is closed drops it.
func (l *Log) Append(batch []byte) (lsn uint64) {
	return l.append(payload{piece: batch, size: len(batch)}, false)
}

// AppendKeeping is Append of a batch in pieces. Nobody may change them before the batch is durable.
// The commit copies a large batch and makes its checksums, so neither the caller nor others that
// append meanwhile wait for that.
func (l *Log) AppendKeeping(pieces [][]byte) (lsn uint64) {
	batch := payload{more: pieces}
	for _, piece := range pieces {
		batch.size += len(piece)
	}
	return l.append(batch, true)
}

func (l *Log) append(batch payload, keep bool) (lsn uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err.Load() != nil {
		l.mu.tail.end += uint64(frameHeaderSize + batch.size)
		return l.mu.tail.end
	}
	l.mu.tail.add(batch, keep)
	return l.mu.tail.end
}

// Rotate makes everything appended afterwards go to a new segment that starts with the batch head,
// and returns the number of that segment. It does no I/O. The number may be recorded as the first
// one needed once End(), read after Rotate, is on disk (Settled). Open takes a missing first
// segment for corruption.
func (l *Log) Rotate(head []byte) (segment uint64, err error) {
	if err := l.Err(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.mu.tail.fresh {
		l.mu.tail.turn(l.mu.tail.seg.number + 1)
	}
	segment = l.mu.tail.seg.number
	l.mu.tail.add(payload{piece: head, size: len(head)}, false)
	return segment, nil
}

// First returns the number of the lowest segment; 0 if there is no room for any. The result right
// after Open may be recorded as the first one needed.
func (l *Log) First() uint64 {
	l.segMu.Lock()
	defer l.segMu.Unlock()
	switch {
	case len(l.segMu.live) > 0:
		return l.segMu.live[0].number
	case l.segMu.ready != nil:
		return l.segMu.ready.number
	}
	return 0
}

// End returns the LSN of the last batch appended. Right after Open, and after Close, it is the end
// of the stream instead, which no batch may have as its LSN.
func (l *Log) End() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.tail.end
}

// Durable returns the position up to which batches may be acknowledged under the policy.
func (l *Log) Durable() uint64 { return l.durable.Load() }

// Synced returns the position up to which the log is on disk.
func (l *Log) Synced() uint64 { return l.synced.Load() }

// SyncCost returns the recent duration of a write with its sync, as a moving average; 0 before the
// first. Under the policies whose commits do not sync, it is the duration of the write.
func (l *Log) SyncCost() time.Duration { return time.Duration(l.cost.Load()) }

// Syncs returns the durations of the syncs of segments since Open, in microseconds.
func (l *Log) Syncs() histogram.Reading { return l.syncs.Read() }

// Commits returns how many bytes each commit wrote since Open.
func (l *Log) Commits() histogram.Reading { return l.sizes.Read() }

// Full reports whether there is no room for a further segment that leaves KeepFree bytes free. The
// log tries again each 100 ms and after each Release. Commits continue until all prepared room is
// used, which is a segment at most; then they wait.
func (l *Log) Full() bool { return l.full.Load() }

// Room returns how many more bytes the last segment can take, and how many it can take in all,
// while no further segment can be made. While another can be made, both numbers are equal.
func (l *Log) Room() (left, size int64) {
	l.mu.Lock()
	number, left, size := l.mu.tail.seg.number, int64(l.mu.tail.left()), int64(l.mu.tail.capacity)
	l.mu.Unlock()
	l.segMu.Lock()
	defer l.segMu.Unlock()
	switch {
	case l.segMu.ready != nil && l.segMu.ready.number > number || !l.full.Load():
		return size, size
	case number >= l.segMu.next: // it is not there
		return 0, size
	}
	return left, size
}

// Err returns the failure that ended the log, ErrClosed after Close, or nil.
func (l *Log) Err() error {
	if err := l.err.Load(); err != nil {
		return *err
	}
	return nil
}

// SetPolicy changes the policy for later commits. It also starts a sync of the written part in the
// background.
func (l *Log) SetPolicy(p Policy) {
	l.policy.Store(uint32(p))
	kick(l.kickSync)
}

// Size returns how many bytes of stream recovery would read: from the start of the oldest segment
// needed to End.
func (l *Log) Size() int64 {
	l.mu.Lock()
	start, end := l.mu.tail.seg.start, l.mu.tail.end
	l.mu.Unlock()
	l.segMu.Lock()
	defer l.segMu.Unlock()
	for _, seg := range l.segMu.live {
		if seg.number >= l.segMu.needed {
			start = min(start, seg.start)
			break
		}
	}
	return int64(end - start)
}

// Settled waits until lsn is on disk, under any policy. After that nothing can undo it. Settled
// requests the write and the sync itself. It returns ErrBeyondEnd for a position that was never
// appended, the log's failure, or the context's error.
func (l *Log) Settled(ctx context.Context, lsn uint64) error {
	if lsn > l.End() {
		return ErrBeyondEnd
	}
	for {
		moved := l.moved.wait()
		if l.synced.Load() >= lsn {
			return nil
		}
		if err := l.Err(); err != nil {
			return err
		}
		if l.o.NoBackground {
			if err := errors.Join(l.commit(l.End()), l.sync()); err != nil {
				return err
			}
			continue
		}
		raise(&l.wanted, lsn)
		kick(l.kickWrite)
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// GiveUp is called before Close, if something that may wait for the log has to end first. From now
// on a batch for which there is no room ends the log with ErrNoRoom, as in Close, instead of
// waiting for room.
func (l *Log) GiveUp() {
	l.segMu.Lock()
	l.segMu.giveUp = true
	l.segMu.room.Broadcast()
	l.segMu.Unlock()
}

// Close writes and syncs what was appended and ends the log; later commits and waits return
// ErrClosed. It returns the failure of a log that had failed, or ErrNoRoom if there was no room for
// batches that nobody has acknowledged. Batches that are appended while Close runs may be lost.
func (l *Log) Close() error {
	l.segMu.Lock()
	again := l.segMu.closed
	l.segMu.closed = true
	l.segMu.Unlock()
	if again {
		return ErrClosed
	}
	l.GiveUp()
	err := l.finish()
	close(l.quit)
	l.end(ErrClosed)
	l.background.Wait()
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	for _, s := range l.segMu.unsynced {
		err = errors.Join(err, s.file.Close())
	}
	if l.segMu.ready != nil {
		err = errors.Join(err, l.segMu.ready.file.Close())
	}
	return err
}

// finish writes and syncs all, then a group that marks the end: with it even the last batch
// is provably durable.
func (l *Log) finish() error {
	l.flushMu.Lock()
	err := l.flush()
	if err == nil {
		err = l.sync()
	}
	if err == nil {
		l.mu.Lock()
		mark := !l.mu.tail.fresh && l.mu.tail.left() >= groupHeaderSize
		if mark {
			l.mu.tail.begin(0)
		}
		l.mu.Unlock()
		if mark {
			err = l.flush()
		}
	}
	if err == nil {
		err = l.sync()
	}
	l.flushMu.Unlock()
	if err == nil {
		l.signalDurable()
	}
	return err
}

// end makes err the error of all later calls, unless the log has ended before, and wakes all
// waiters.
func (l *Log) end(err error) (first bool) {
	first = l.err.CompareAndSwap(nil, &err)
	l.segMu.Lock()
	l.segMu.room.Broadcast()
	l.segMu.Unlock()
	l.moved.broadcast()
	return first
}

// fail ends the log with a failure of the disk and returns the error that ended the log.
func (l *Log) fail(err error) error {
	err = fmt.Errorf(
		"wal: %w; nothing more is written, opening the log again recovers what is durable", err)
	if l.end(err) {
		l.o.Logger.Error("log failed", "error", err)
		if l.o.OnFail != nil {
			go l.o.OnFail(err)
		}
	}
	return l.Err()
}
