package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"keyp/internal/boltfile"
	"keyp/internal/clock"
	"keyp/internal/histogram"
	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/hashtable"
	"keyp/storage/wal"
)

// A checkpoint copies changes from memory to the data file, so that the log's older segments can be
// removed:
//
//  1. Begin a new log segment and note the state of that moment, with all shards locked.
//  2. Slot by slot, copy the keys that changed since the last checkpoint (dirty ones), with the
//     shard locked for microseconds at a time. Wait until the log up to the newest copied change is
//     on disk. Then write the copies in one bbolt transaction of bounded size. A key that changes
//     meanwhile is dirty again. Changes of deadlines are collected first, and sorted before they
//     are applied to the bucket ttl (datafile/pending.go). After all slots, write the values that
//     were renamed meanwhile (arrivals.go).
//  3. Record the noted state, with the new segment as the first one needed, and release older ones.
//
// A checkpoint is fuzzy: some keys in the file are newer than the noted state. So a start applies
// some log records to keys that have them already, and records must be idempotent. After each piece
// of work the checkpoint pauses for as long as that took, unless it has to hurry. So the latency of
// commands stays low.
type checkpointer struct {
	// Constant.
	s    *Store
	kick chan struct{}

	// mu is locked while the data file is written, by a checkpoint or a compaction.
	mu struct {
		sync.Mutex
		// The segment that the last rotation began, and where the log ended then.
		rotated, rotatedEnd uint64
		// The state of the bucket pending: its length, and the slots that wait for it to be empty.
		pending     int
		awaited     []*slot
		ttlDoubtful bool // ttl has entries that are no key's; see format.MetaDoubt
	}

	arrivals arrivals // has its own lock
	copying  copying  // has its own lock

	// Written where a checkpoint is started.
	wanted atomic.Int32 // checkpoints under way or about to start
	// Written by the checkpoint under way.
	last     atomic.Int64 // Unix ms of the last one that finished
	lastErr  atomic.Pointer[error]
	finished atomic.Int64
	failures atomic.Int64
	took     *histogram.Histogram // microseconds
	// No checkpoint starts by itself before this time, a reading of Mono in ns; 0: no such time.
	backoffUntil atomic.Int64
	// Where the log ended when damage of the data file stopped a checkpoint.
	damagedAt atomic.Uint64
	// Written by housekeeping.
	hurry atomic.Bool // no pacing: the log is long
}

func (cp *checkpointer) init(s *Store) {
	cp.s, cp.kick, cp.took = s, make(chan struct{}, 1), histogram.New(histogram.Work)
}

const (
	// batchBytes bounds the bytes of a bbolt transaction of a checkpoint. Each transaction changes
	// many pages, so a few large ones take less time than many small ones.
	batchBytes = 32 << 20
	// batchShare bounds a batch to MaxMemory/batchShare bytes, if that is less than batchBytes.
	// batchMin is the least bound. Writing a batch takes several times its bytes.
	batchShare = 32
	batchMin   = 1 << 20
	// partBytes: if the copied keys of a part have so many bytes, they are committed before the
	// keys of the next part are copied.
	partBytes = 1 << 20
	// portionSize and portionBytes bound the part of a value that is copied each time its shard is
	// locked: some 100 us.
	portionSize  = 256
	portionBytes = 256 << 10
)

// Checkpoint runs a checkpoint and returns after its end. If another checkpoint is under way, it
// first waits for that one.
func (s *Store) Checkpoint() error {
	s.checkpointer.mu.Lock()
	defer s.checkpointer.mu.Unlock()
	s.checkpointer.wanted.Add(1)
	defer s.checkpointer.wanted.Add(-1)
	began := s.clock.Mono()
	err := s.checkpointer.run()
	s.checkpointer.lastErr.Store(&err)
	if err != nil {
		s.checkpointer.failures.Add(1)
		s.checkpointer.notWritten(err)
		return err
	}
	s.checkpointer.backoffUntil.Store(0)
	s.checkpointer.last.Store(s.clock.Now())
	s.checkpointer.finished.Add(1)
	s.checkpointer.took.Observe((s.clock.Mono() - began).Microseconds())
	return nil
}

// notWritten handles an error of writing to the data file. A full disk, damage, and the loss of the
// leadership leave the file as it was; every other error ends the store.
func (cp *checkpointer) notWritten(err error) {
	s := cp.s
	switch {
	case errors.Is(err, datafile.ErrUncertain):
	case OutOfSpace(err):
		s.house.lowSpace.Store(true)
		cp.backOff(roomBackoff)
		if failed := s.file.GiveBack(); failed != nil {
			err = errors.Join(err, failed)
		}
		s.options.Logger.Error("a checkpoint found no room on disk; the log keeps everything",
			"error", err)
		return
	case errors.Is(err, ErrCorrupt):
		cp.backOff(damageBackoff)
		cp.damagedAt.Store(s.log.End())
		s.options.Logger.Error(
			"the data file is damaged and cannot take a checkpoint; the log keeps everything",
			"error", err)
		return
	case errors.Is(err, ErrDeposed):
		cp.backOff(deposedBackoff)
		s.options.Logger.Warn("a checkpoint was given up; the log keeps everything", "reason", err)
		return
	}
	s.fail(fmt.Errorf("storage: checkpoint: %w", err))
}

// OutOfSpace reports whether an error says that the disk is full.
func OutOfSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		errors.Is(err, wal.ErrNoRoom)
}

// StartCheckpoint requests a checkpoint in the background. It returns false if one is under way or
// about to start.
func (s *Store) StartCheckpoint() bool {
	if !s.checkpointer.wanted.CompareAndSwap(0, 1) {
		return false
	}
	s.checkpointer.kick <- struct{}{} // there is room: the one asked for before has ended
	return true
}

// Checkpointing reports whether a checkpoint is under way or about to start.
func (s *Store) Checkpointing() bool { return s.checkpointer.wanted.Load() > 0 }

// LastCheckpoint returns when the last checkpoint finished, in Unix ms (0: none since the start),
// and the error of the last attempt.
func (s *Store) LastCheckpoint() (at int64, err error) {
	if e := s.checkpointer.lastErr.Load(); e != nil {
		err = *e
	}
	return s.checkpointer.last.Load(), err
}

func (cp *checkpointer) run() error {
	m, err := cp.rotate()
	if err != nil {
		return err
	}
	if err := cp.writeSince(m); err != nil {
		cp.s.garbage.add(m.garbage...)
		return err
	}
	return cp.collectGarbage()
}

// writeSince writes all keys that were dirty at the mark, and then the mark.
func (cp *checkpointer) writeSince(m mark) error {
	s := cp.s
	defer cp.arrivals.reset()
	defer cp.copying.reset()
	var b cpBatch
	for _, p := range m.parts {
		if err := cp.copyPart(&b, p); err != nil {
			return err
		}
	}
	if err := cp.commitBatch(&b); err != nil {
		return err
	}
	if err := cp.copyArrivals(&b); err != nil {
		return err
	}
	if err := cp.makePending(); err != nil {
		return err
	}
	latest := cp.latestGarbage()
	if err := cp.writeMark(m, latest); err != nil {
		s.garbage.add(latest...)
		return err
	}
	s.replayCost.Add(-m.cost)
	s.changes.Add(-m.changes)
	return s.log.Release(m.state.First)
}

// writeMark writes the noted state to the data file, in the last transaction of a checkpoint.
func (cp *checkpointer) writeMark(m mark, latest [][]byte) error {
	s := cp.s
	garbage := slices.Concat(m.garbage, latest, s.garbage.keeps())
	// Wait for the whole log, not only up to the mark. If a keyspace was emptied since the mark,
	// nothing of it was written, so the log must have the FLUSHDB before its older segments go.
	if err := s.log.Settled(context.Background(), s.log.End()); err != nil {
		return err
	}
	err := s.updateFile(func(tx *bolt.Tx) error {
		for _, item := range garbage {
			if err := datafile.PutGarbage(tx, item); err != nil {
				return err
			}
		}
		return datafile.PutMeta(tx, format.MetaState, m.state.Append(nil))
	})
	if err == nil {
		err = s.commitAgain()
	}
	return err
}

// mark is the moment a checkpoint rotated the log.
type mark struct {
	state   format.State
	cost    int64    // what replaying those batches would cost
	changes int64    // that they state
	garbage [][]byte // made by them: it may only be deleted once they are durable
	// parts have the keys of that moment, even if SWAPDB swaps their databases while the checkpoint
	// goes from one to the next.
	parts []*part
}

// rotate starts a new log segment, unless the segment of the last rotation is still empty, and
// returns the mark. First it applies the pending changes that an unfinished checkpoint has left.
func (cp *checkpointer) rotate() (m mark, err error) {
	s := cp.s
	if err := cp.makePending(); err != nil {
		return m, err
	}
	t := s.NewTxn()
	s.BeginAll(t)
	defer s.unlock(t)
	m.state, m.cost, m.changes = s.current(), s.replayCost.Load(), s.changes.Load()
	if err := cp.rotateLog(&m.state); err != nil {
		return m, err
	}
	m.garbage = s.garbage.take()
	cp.arrivals.begin(m.state.Generation)
	for _, sh := range s.shards {
		// The reap records of the old segments go with them. The removals that these records
		// describe are on disk by then, but later removals are not.
		sh.mu.logged = 0
	}
	m.parts = s.partsInOrder()
	return m, nil
}

// partsInOrder returns the parts in the order of the data file, by keyspace and slot. So their
// records are appended in order; bbolt would have to move the records after an inserted one. All
// shards are locked.
func (s *Store) partsInOrder() (parts []*part) {
	dbs := make([]int, len(s.spaces.ids))
	for db := range dbs {
		dbs[db] = db
	}
	slices.SortFunc(dbs, func(a, b int) int {
		return cmp.Compare(s.spaces.ids[a], s.spaces.ids[b])
	})
	for _, db := range dbs {
		for _, sh := range s.shards {
			if p := sh.mu.parts[db]; p != nil {
				parts = append(parts, p)
			}
		}
	}
	return parts
}

// rotateLog starts a new log segment, unless the one that the last attempt started is still empty.
// The time records of older segments go with them, so the state gets the time.
func (cp *checkpointer) rotateLog(st *format.State) (err error) {
	s := cp.s
	s.shown.mu.Lock()
	defer s.shown.mu.Unlock()
	c := cp
	if c.mu.rotated == 0 || s.log.End() != c.mu.rotatedEnd {
		if c.mu.rotated, err = s.log.Rotate(nil); err != nil {
			return err
		}
		c.mu.rotatedEnd = s.log.End()
	}
	st.First, st.Time = c.mu.rotated, s.shown.at.Load()
	if st.Member {
		// The log of a follower may contain a batch that the follower has not applied yet.
		st.Position = s.Shown()
	}
	return nil
}

// batchLimit returns the largest number of bytes of a batch.
func (cp *checkpointer) batchLimit() int {
	limit := cp.s.bounds.batchBytes
	if m := cp.s.maxMemory.Load(); m > 0 {
		limit = min(limit, max(int(m/batchShare), batchMin))
	}
	return limit
}

// copyPart copies the dirty keys of one part and writes them. If they are few, it leaves them for
// the commit with the keys of the next part, because each commit syncs twice.
func (cp *checkpointer) copyPart(b *cpBatch, p *part) error {
	p.shard.mu.Lock()
	slots := p.allUsed() // keys that others get from now on are in the remaining log, or arrivals
	p.shard.mu.Unlock()
	for _, sl := range slots {
		for from, done := uint32(0), false; !done; {
			from, done = cp.copySlot(b, p, sl, from)
			if err := cp.copyRest(b); err != nil {
				return err
			}
		}
	}
	if b.arena.bytes < min(partBytes, cp.batchLimit()) {
		return nil
	}
	return cp.commitBatch(b)
}

// commitBatch writes a batch to the data file and empties it.
func (cp *checkpointer) commitBatch(b *cpBatch) error {
	s := cp.s
	if len(b.slots) == 0 {
		return nil
	}
	began := workBegan()
	if err := s.log.Settled(context.Background(), b.lsn); err != nil {
		cp.uncopy(b)
		return err
	}
	b.sort()
	if err := cp.verifyBatch(b); err != nil {
		cp.uncopy(b)
		return err
	}
	w := batchWriter{s: s, after: map[*slot]slotAfter{}}
	if err := s.updateFile(func(tx *bolt.Tx) error { return w.write(tx, b) }); err != nil {
		cp.uncopy(b)
		return err
	}
	cp.markClean(b, &w)
	cp.copying.reset()
	s.stats.CheckpointKeys.Add(int64(len(b.entries)))
	b.reset()
	cp.pace(began)
	if cp.mu.pending >= cp.pendingLimit() {
		return cp.makePending()
	}
	return nil
}

// DiskBusy reports whether the data file is being synced; a sync of the log takes longer meanwhile.
func (s *Store) DiskBusy() bool { return s.file.Syncing() }

// workBegan returns the start of a piece of work for pace. It is real time, like pace's wait, and
// not a test's clock.
func workBegan() time.Duration { return clock.System.Mono() }

// pace waits as long as the work since began took.
func (cp *checkpointer) pace(began time.Duration) {
	s := cp.s
	if s.options.NoBackground || cp.hurry.Load() || s.quit.Err() != nil {
		return // or no client waits for the processor
	}
	select {
	case <-time.After(workBegan() - began):
	case <-s.quit.Done():
	}
}

// verifyBatch verifies the slots that a batch will change, unless they are verified. A corrupt
// record is no error here: the batch may replace it.
func (cp *checkpointer) verifyBatch(b *cpBatch) error {
	for run := range b.runs {
		p, sl := run[0].p, run[0].sl
		p.shard.mu.Lock()
		sure := sl.verified || sl.onDisk == 0
		p.shard.mu.Unlock()
		if sure {
			continue
		}
		err := cp.s.file.View(func(tx *bolt.Tx) error {
			return datafile.VerifySlot(tx, format.SlotKey(nil, p.space, sl.num))
		})
		if bad := (*boltfile.Damage)(nil); errors.As(err, &bad) {
			return err
		}
		p.shard.mu.Lock()
		sl.verified = err == nil
		p.shard.mu.Unlock()
	}
	return nil
}

// markClean notes in memory that a batch is on disk.
func (cp *checkpointer) markClean(b *cpBatch, w *batchWriter) {
	s := cp.s
	for _, m := range w.unnamed {
		m.p.shard.mu.Lock()
		m.p.moved.take(m.id)
		m.p.shard.mu.Unlock()
	}
	for _, e := range b.entries {
		if e.rec != nil {
			continue
		}
		k := s.keyIn(e.sl, e.gone)
		e.p.shard.mu.Lock()
		if c := e.p.find(e.sl, k); c != nil && c.Is(hashtable.Tomb) && !c.Is(hashtable.Dirty) {
			e.p.toDisk(k, 0)
			e.p.drop(e.sl, c)
		}
		e.p.shard.mu.Unlock()
	}
	for _, sl := range b.slots {
		sh := s.shards[s.shardOf(sl.num)]
		sh.mu.Lock()
		if d, ok := w.after[sl]; ok {
			sl.onDisk, sl.digest = d.Keys, d.Digest
			if d.due && !sl.awaiting {
				sl.awaiting = true
				cp.mu.awaited = append(cp.mu.awaited, sl)
			}
		}
		sl.inflight = false
		sh.mu.Unlock()
	}
	cp.mu.pending += w.pending
}
