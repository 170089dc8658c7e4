package raftlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"keyp/consensus"
	"keyp/internal/histogram"
	"keyp/storage/wal"
)

// This file contains Log, which stores a server's Raft log on disk. It keeps the newest entries in
// memory, too.

const (
	// cacheSize bounds the entries that are kept in memory although they are on disk, in bytes.
	cacheSize = 64 << 20
	// entryMemory is about how much memory an entry takes besides its data, in bytes.
	entryMemory = 160
	// Sync leaves a sync to the wal's own goroutine if syncs cost more than slowSync, or if more
	// than largeCommit bytes wait.
	slowSync    = 200 * time.Microsecond
	largeCommit = 1 << 20
)

// ErrLog means that records contradict each other.
var ErrLog = errors.New("raftlog: the log is corrupt")

// Log is an open log. Any goroutine may call its methods. The methods of consensus.Log have the
// restrictions that are described there.
type Log struct {
	wal    *wal.Log
	inline bool // Sync always syncs itself, because the wal has no goroutine for it
	owed   atomic.Pointer[owed]

	mu struct {
		sync.Mutex
		state
		written  hard        // the hard state that is in a record
		end      uint64      // LSN of the last record
		changed  uint64      // LSN of the last record with entries or a base; 0: it was read
		position uint64      // of the base that comes next
		synced   uint64      // the last result of syncedIndex, lower if entries were replaced
		cache    []*pb.Entry // the newest entries
		from     uint64      // index of the first of these
		bytes    int         // of cache
		limit    int         // of bytes
		pieces   [][]byte
		entries  []entry
		snapshot func() (*pb.Snapshot, error)
		busy     func() bool
		pace     func(bytes uint64) time.Duration
	}
}

// owed is a sync that continues after Sync has returned.
type owed struct {
	end  uint64
	done func(error)
}

// Create makes the log of a new member in o.Dir, which must not have one. The log begins with a
// base: the one on which the first members agree, or Base{} if the member joins a group. When
// Create returns, the log is on disk. It returns the first segment needed.
func Create(o wal.Options, id Identity, base Base) (first uint64, err error) {
	if lowest, err := wal.Lowest(o.FS, o.Dir); err != nil || lowest != 0 {
		return 0, errors.Join(err, fmt.Errorf("raftlog: there is a log in %s already", o.Dir))
	}
	if base.Conf == nil {
		base.Conf = &pb.ConfState{}
	}
	o.Policy, o.NoBackground = wal.Always, true
	log, err := wal.Open(o, 0, nil)
	if err != nil {
		return 0, err
	}
	head := record{id: id, last: base.Index, term: base.Term, hard: &hard{}, base: &base}
	first, err = log.Rotate(appendHead(nil, &head))
	if err == nil {
		err = log.Commit()
	}
	return first, errors.Join(err, log.Close(), o.FS.SyncDir(filepath.Dir(o.Dir)))
}

// Open opens a log from the segment first on, which Create, Rotate or Needed has returned. It
// returns the errors of wal.Open for damage, and ErrLog for records that contradict each other. In
// that case it changes nothing.
func Open(o wal.Options, first uint64) (*Log, error) {
	l := &Log{inline: o.NoBackground}
	l.mu.limit = cacheSize
	l.mu.snapshot = func() (*pb.Snapshot, error) {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	l.mu.busy = func() bool { return false }
	l.mu.pace = func(uint64) time.Duration { return 0 }
	if first == 0 {
		return nil, fmt.Errorf("%w: no segment is its first", ErrLog)
	}
	replayed := o.Replayed
	o.Policy = wal.Always
	o.Replayed = func() error {
		if err := l.mu.begin(); err != nil {
			return fmt.Errorf("%w: %w", ErrLog, err)
		}
		if replayed != nil {
			return replayed()
		}
		return nil
	}
	onDurable, onFail := o.OnDurable, o.OnFail
	o.OnDurable = func(lsn uint64) {
		l.settle(lsn, nil)
		if onDurable != nil {
			onDurable(lsn)
		}
	}
	o.OnFail = func(err error) {
		l.settle(0, err)
		if onFail != nil {
			onFail(err)
		}
	}
	var err error
	l.wal, err = wal.Open(o, first, func(lsn uint64, batch []byte) error {
		r, err := parse(batch, l.mu.entries)
		if err == nil {
			if r.entries != nil {
				l.mu.entries = r.entries
			}
			err = l.mu.apply(&r, l.mu.end)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrLog, err)
		}
		l.mu.end = lsn
		return nil
	})
	if err != nil {
		return nil, err
	}
	l.mu.written, l.mu.end, l.mu.from = l.mu.hard, l.wal.End(), l.mu.last+1
	if err := l.place(first); err != nil {
		return nil, errors.Join(err, l.wal.Close())
	}
	return l, nil
}

// place finds the segments of the heads that were read. The place of the first one is not known.
func (l *Log) place(first uint64) error {
	reader := l.wal.Reader()
	defer reader.Close()
	l.mu.rotations[0].segment = first
	for i := range l.mu.rotations[1:] {
		r := &l.mu.rotations[i+1]
		number, err := reader.SegmentAfter(r.place)
		if err != nil {
			return err
		}
		r.segment = number
	}
	return nil
}

// SetSnapshot sets the function that Snapshot calls. Before that, Snapshot returns
// raft.ErrSnapshotTemporarilyUnavailable.
func (l *Log) SetSnapshot(f func() (*pb.Snapshot, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.snapshot = f
}

// SetBusy sets a function that reports whether the disk is busy with other work. While it is, Sync
// does not wait for syncs.
func (l *Log) SetBusy(f func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.busy = f
}

// SetPace sets a function that delays done. Sync passes it the number of bytes that it brings to
// disk. The function returns how long Sync then waits before it calls done.
func (l *Log) SetPace(f func(bytes uint64) time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.pace = f
}

// SetPosition sets the Position of the base that the next Write with a base brings. It is the
// position in the replicated data at which the entries after that base begin.
func (l *Log) SetPosition(position uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.position = position
}

// Identity returns the identity of the log's member.
func (l *Log) Identity() Identity {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.id
}

// Hard implements consensus.Log.
func (l *Log) Hard() *pb.HardState {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.mu.hard
	return &pb.HardState{Term: new(h.term), Vote: new(h.vote),
		Commit: new(min(h.commit, l.mu.last))}
}

// Base implements consensus.Log.
func (l *Log) Base() consensus.Base { return l.Begin().Base }

// Begin returns the base of the log.
func (l *Log) Begin() Base {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.base
}

// Last implements consensus.Log.
func (l *Log) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.last
}

// Term implements consensus.Log.
func (l *Log) Term(index uint64) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case index < l.mu.base.Index:
		return 0, raft.ErrCompacted
	case index > l.mu.last:
		return 0, raft.ErrUnavailable
	}
	return l.mu.term(index), nil
}

// Snapshot implements consensus.Log.
func (l *Log) Snapshot() (*pb.Snapshot, error) {
	l.mu.Lock()
	f := l.mu.snapshot
	l.mu.Unlock()
	return f()
}

// Append implements consensus.Log. A Write that contradicts the log is a defect of the caller, and
// panics.
func (l *Log) Append(w consensus.Write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.mu.hard
	if h := w.Hard; h != nil {
		now = hard{h.GetTerm(), h.GetVote(), max(h.GetCommit(), l.mu.hard.commit)}
	}
	if w.Base == nil && len(w.Entries) == 0 && now.term == l.mu.written.term &&
		now.vote == l.mu.written.vote {
		l.mu.hard.commit = max(l.mu.hard.commit, min(now.commit, l.mu.last))
		return
	}
	// This sets synced: after a record without entries, the table alone gives too low an index.
	l.syncedIndex()
	r := l.record(&w, now)
	if err := l.mu.apply(r, l.mu.end); err != nil {
		panic(fmt.Sprintf("raftlog: %v", err))
	}
	l.keep(w.Entries, r.base != nil)
	if r.base != nil {
		l.mu.synced = r.base.Index
	} else if len(r.entries) > 0 {
		l.mu.synced = min(l.mu.synced, r.first-1)
	}
	l.mu.end = l.wal.AppendKeeping(l.encode(r))
	if r.base != nil || len(r.entries) > 0 {
		l.mu.changed = l.mu.end
	}
	l.mu.written = l.mu.hard
	l.evict()
}

// SaveCommit adds a record with the known commit index, or with index if that is higher, unless a
// record with it is already there. index is that of a committed entry of this log. It returns the
// position for Settled. After that, all entries up to index are known as committed even after a
// crash of all members, so a checkpoint may contain them.
func (l *Log) SaveCommit(index uint64) (end uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.mu.hard; min(index, l.mu.last) > l.mu.written.commit {
		now.commit = max(now.commit, min(index, l.mu.last))
		r := &record{hard: &now}
		if err := l.mu.apply(r, l.mu.end); err != nil {
			panic(fmt.Sprintf("raftlog: %v", err)) // a commit index only grows
		}
		l.mu.end = l.wal.AppendKeeping(l.encode(r))
		l.mu.written = l.mu.hard
	}
	return l.mu.end
}

// record returns the record of a Write, with a hard state if that has changed. mu is locked.
func (l *Log) record(w *consensus.Write, now hard) *record {
	r := &record{}
	if now != l.mu.written {
		r.hard = &now
	}
	if w.Base != nil {
		r.base = &Base{Base: *w.Base, Position: l.mu.position}
	}
	if len(w.Entries) > 0 {
		r.first = w.Entries[0].GetIndex()
	}
	r.entries = l.mu.entries[:0]
	for i, e := range w.Entries {
		if e.GetIndex() != r.first+uint64(i) {
			panic(fmt.Sprintf("raftlog: entry %d comes after %d", e.GetIndex(),
				r.first+uint64(i)-1))
		}
		r.entries = append(r.entries, entry{e.GetType(), e.GetTerm(), e.Data})
	}
	l.mu.entries = r.entries
	return r
}

// encode returns a record in pieces. The entries' data is not copied. mu is locked.
func (l *Log) encode(r *record) [][]byte {
	const most = 1 + 2*binary.MaxVarintLen64
	size := 128 + most*len(r.entries)
	if r.base != nil {
		size += proto.Size(r.base.Conf)
	}
	b, pieces := appendWrite(make([]byte, 0, size), r.hard, r.base, r.first, len(r.entries)),
		l.mu.pieces[:0]
	from := 0
	for _, e := range r.entries {
		b = appendEntry(b, e.kind, e.term, len(e.data))
		if len(e.data) > 0 {
			pieces = append(pieces, b[from:], e.data)
			from = len(b)
		}
	}
	if from < len(b) {
		pieces = append(pieces, b[from:])
	}
	l.mu.pieces = pieces
	return pieces
}

// keep adds the log's newest entries to the cache, and removes entries that they replace. If again
// is true, they replace all. mu is locked.
func (l *Log) keep(entries []*pb.Entry, again bool) {
	first := l.mu.last + 1 - uint64(len(entries))
	if again || first < l.mu.from {
		l.drop(len(l.mu.cache))
		l.mu.from = first
	}
	for n := int(first - l.mu.from); n < len(l.mu.cache); {
		last := len(l.mu.cache) - 1
		l.mu.bytes -= memory(l.mu.cache[last])
		l.mu.cache[last], l.mu.cache = nil, l.mu.cache[:last]
	}
	l.mu.cache = append(l.mu.cache, entries...)
	for _, e := range entries {
		l.mu.bytes += memory(e)
	}
}

// evict drops the oldest entries from memory that are beyond its limit and on disk. mu is locked.
func (l *Log) evict() {
	if l.mu.bytes <= l.mu.limit {
		return
	}
	synced, n, bytes := l.syncedIndex(), 0, l.mu.bytes
	for ; n < len(l.mu.cache) && bytes > l.mu.limit && l.mu.from+uint64(n) <= synced; n++ {
		bytes -= memory(l.mu.cache[n])
	}
	l.drop(n)
}

// drop drops the oldest n entries from memory. mu is locked.
func (l *Log) drop(n int) {
	for _, e := range l.mu.cache[:n] {
		l.mu.bytes -= memory(e)
	}
	clear(l.mu.cache[:n])
	l.mu.cache, l.mu.from = l.mu.cache[n:], l.mu.from+uint64(n)
}

func memory(e *pb.Entry) int { return len(e.Data) + entryMemory }

// Sync implements consensus.Log. It does no I/O if nothing was appended since the last one.
func (l *Log) Sync(done func(error)) {
	l.mu.Lock()
	end, busy, pace := l.mu.end, l.mu.busy, l.mu.pace
	l.mu.Unlock()
	durable := l.wal.Durable()
	if durable < end {
		if d := pace(end - durable); d > 0 {
			done = delayed(done, d)
		}
	}
	switch {
	case durable >= end:
		done(nil)
	case l.inline || end-durable <= largeCommit && l.wal.SyncCost() <= slowSync &&
		!l.wal.Full() && !busy():
		done(l.wal.Commit())
	default:
		l.owed.Store(&owed{end, done})
		l.wal.CommitAsync()
		// The sync may have ended before owed was stored.
		l.settle(l.wal.Durable(), l.wal.Err())
	}
}

// delayed returns a function that calls done after d, and at once for an error.
func delayed(done func(error), d time.Duration) func(error) {
	return func(err error) {
		if err != nil {
			done(err)
			return
		}
		time.AfterFunc(d, func() { done(nil) })
	}
}

// settle calls done of the owed sync if the data of that sync is durable, or if the sync has
// failed.
func (l *Log) settle(durable uint64, err error) {
	if o := l.owed.Load(); o != nil && (durable >= o.end || err != nil) &&
		l.owed.CompareAndSwap(o, nil) {
		if durable >= o.end {
			err = nil
		}
		o.done(err)
	}
}

// Rotate begins another segment. applied is the last entry that the member's machine has applied.
// Rotate returns the first segment that the member then needs. The caller may record that segment
// once the position End, read after Rotate, is settled.
func (l *Log) Rotate(applied Base) (segment uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if applied.Conf == nil {
		applied.Conf = &pb.ConfState{}
	}
	if applied.Index < l.mu.base.Index || applied.Index > l.mu.last ||
		l.mu.term(applied.Index) != applied.Term {
		return 0,
			fmt.Errorf(
				"raftlog: entry %d of term %d is no base of a log with entries after %d, up to %d",
				applied.Index, applied.Term, l.mu.base.Index, l.mu.last)
	}
	now := l.mu.hard
	head := record{head: true, id: l.mu.id, hard: &now, base: &applied, last: l.mu.last,
		term: l.mu.term(l.mu.last)}
	number, err := l.wal.Rotate(appendHead(nil, &head))
	if err != nil {
		return 0, err
	}
	if err := l.mu.apply(&head, l.mu.end); err != nil {
		panic(fmt.Sprintf("raftlog: %v", err)) // it says what the state says
	}
	l.mu.rotations[len(l.mu.rotations)-1].segment = number
	l.mu.written, l.mu.end = l.mu.hard, l.wal.End()
	return l.mu.rotations[l.mu.needed(applied.Index)].segment, nil
}

// Needed returns the newest segment with which Open may begin and still find all entries after
// index; 0 if there is none. The heads that Rotate wrote must be on disk before the call.
func (l *Log) Needed(index uint64) (segment uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.mu.needed(index); n >= 0 {
		return l.mu.rotations[n].segment
	}
	return 0
}

// Release removes the segments before first, which Rotate or Needed has returned, so the log begins
// later. The caller must have recorded that Open begins there or later.
func (l *Log) Release(first uint64) error {
	l.mu.Lock()
	n := 0
	for n+1 < len(l.mu.rotations) && l.mu.rotations[n+1].segment <= first {
		n++
	}
	keep := l.mu.rotations[n:]
	base, ok := lowest(keep, keep[0].after)
	if !ok {
		l.mu.Unlock()
		return fmt.Errorf("raftlog: no base is known for a log that begins with segment %d", first)
	}
	l.mu.rotations = slices.Clone(keep)
	if base.Index > l.mu.base.Index {
		l.mu.rebase(base)
		if l.mu.from <= base.Index {
			l.drop(min(len(l.mu.cache), int(base.Index+1-l.mu.from)))
		}
	}
	segment := keep[0].segment
	l.mu.Unlock()
	return l.wal.Release(segment)
}

// SyncedIndex returns an index up to which all entries are on disk; usually it is the highest such
// index. It decreases only where entries are replaced.
func (l *Log) SyncedIndex() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.syncedIndex()
}

// syncedIndex is SyncedIndex; mu is locked.
func (l *Log) syncedIndex() uint64 {
	index, position := l.mu.last, l.wal.Synced()
	if position < l.mu.changed {
		// The table does not count the last entries before a head.
		next, _ := l.mu.table.before(position)
		index = max(next, 1) - 1
	}
	l.mu.synced = max(l.mu.synced, index, l.mu.base.Index)
	return l.mu.synced
}

// Err returns the error that has ended the log, or nil.
func (l *Log) Err() error { return l.wal.Err() }

// SyncCost returns how long a write with its sync takes at present.
func (l *Log) SyncCost() time.Duration { return l.wal.SyncCost() }

// Syncs returns the durations of syncs, in microseconds.
func (l *Log) Syncs() histogram.Reading { return l.wal.Syncs() }

// Commits returns how many bytes each commit has written.
func (l *Log) Commits() histogram.Reading { return l.wal.Commits() }

// GiveUp ends all waiting for room on the disk. It must be called before Close and
// consensus.Group.Close.
func (l *Log) GiveUp() {
	l.wal.GiveUp()
	if o := l.owed.Load(); o != nil {
		go func() { l.settle(l.wal.Durable(), l.wal.Settled(context.Background(), o.end)) }()
	}
}

// Close writes and syncs the appended data, and ends the log. The group must have ended before.
func (l *Log) Close() error {
	err := l.wal.Close()
	l.settle(l.wal.Durable(), wal.ErrClosed)
	return err
}
