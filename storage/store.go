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
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"keyp/internal/clock"
	"keyp/internal/histogram"
	"keyp/internal/vfs"
	"keyp/storage/archive"
	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/hashtable"
	"keyp/storage/wal"
	"keyp/ttl"
)

// Errors of opening a store.
var (
	// ErrLocked: another process has the data directory open.
	ErrLocked = datafile.ErrLocked
	// ErrNoData: the directory has no data, and Options.Existing asks for some.
	ErrNoData = errors.New("storage: the directory has no data of Keyp")
	// ErrClosed is the error of calls on a store that is closed or closing.
	ErrClosed = errors.New("storage: closed")
)

// Defaults of Options.
const (
	DefaultDatabases       = 16
	DefaultShards          = 16
	DefaultCheckpointBytes = 512 << 20
	DefaultDiskReserve     = 64 << 20
	// DefaultInitialMmap is address space, not memory. It is large because a new mapping waits for
	// all readers, and new readers wait for the mapping.
	DefaultInitialMmap = 16 << 30
)

// Store is an open store. Its methods may be called by several goroutines.
type Store struct {
	View // from outside any transaction

	// Constant once Open has returned.
	options       Options
	clock         clock.Clock
	dirLock       io.Closer
	log           Journal
	archiver      *archive.Archiver // nil: there is no archive
	timed         bool              // the log has the time of each batch
	seed          format.Seed
	shards        []*shard
	slotsPerShard int
	opened        int64 // Unix ms
	reapFrom      int64 // lateness counts for deadlines from here on, Unix ms
	reaper        *ttl.Reaper
	bounds        bounds
	quit          context.Context
	stop          context.CancelFunc

	// Each has its own locks; doc.go has their order.
	global        globalTxn
	file          *datafile.File
	checkpointer  checkpointer
	garbage       garbage
	diskDeadlines diskDeadlines
	later         laterDeadlines
	diskWalk      diskWalk
	loads         loads
	house         housekeeper
	shown         shownTime
	guard         clockGuard
	groupTime     groupTime
	follower      follower
	hooks         Hooks
	lateness      ttl.Lateness
	late          struct{ keys, elements *histogram.Histogram } // lateness in microseconds
	stats         counters
	damages       damages
	background    sync.WaitGroup

	// spaces changes while all shards are locked; one locked shard is enough to read it.
	spaces struct {
		ids   []uint32 // keyspace by database number, the system's last
		next  uint32
		swaps []uint64 // by database number: how often it was swapped
	}

	// Written while the shard concerned is locked.
	// The newest instant given out; only timeFollows and goBack set it back.
	instant    atomic.Int64
	stepped    atomic.Bool   // the wall clock is behind it
	generation atomic.Uint64 // the newest id of a value
	partials   atomic.Int64  // partial slots
	replayCost atomic.Int64  // of the log since the last checkpoint, in ns of one processor
	changes    atomic.Int64  // of keys, as the same part of the log states them
	// Written by the setters of the same names, whenever a setting changes.
	passive     atomic.Bool // the reaper is turned off: SetActiveExpire
	eventMask   atomic.Uint32
	onEvent     atomic.Pointer[func(Happened)]
	observer    atomic.Pointer[func([]Change)]
	onSystem    atomic.Pointer[func(names []string)]
	governor    atomic.Pointer[governing]
	onReap      atomic.Pointer[func(took time.Duration)]
	maxMemory   atomic.Int64
	frequency   atomic.Pointer[Frequency]
	diskReserve atomic.Uint64 // the free space below which growth is refused
	// Written once, when the failure is found.
	failed atomic.Pointer[error]
}

// Recovered describes the data that Open found.
type Recovered struct {
	Keys, Deadlines int64
	Batches         int64 // replayed from the log
	Took            time.Duration
}

// Open opens the store in o.Dir, which is made if missing. It recovers the state of the last
// checkpoint and replays the log since. It does not read the keys that are only in the data file,
// so their number does not matter for its time.
func Open(o Options) (*Store, Recovered, error) {
	if err := o.Complete(); err != nil {
		return nil, Recovered{}, err
	}
	began := o.Clock.Mono()
	s := &Store{options: o, clock: o.Clock, opened: o.Clock.Now()}
	s.View = View{s: s}
	s.quit, s.stop = context.WithCancel(context.Background())
	s.maxMemory.Store(o.MaxMemory)
	s.frequency.Store(o.Frequency)
	s.diskReserve.Store(o.DiskReserve)
	s.bounds = o.Testing.bounds()
	s.diskDeadlines.init(s)
	s.loads.init(s)
	s.checkpointer.init(s)
	s.late.keys, s.late.elements = histogram.New(histogram.Lateness),
		histogram.New(histogram.Lateness)
	s.house.s = s
	s.file = datafile.New(s.fileOptions())
	s.guard.init(s)
	s.hooks = s.newHooks()
	s.follower.on.Store(o.Follower)
	rec, err := s.recover()
	if err != nil {
		return nil, Recovered{}, errors.Join(err, s.release())
	}
	if err := s.hooks.Start(s.quit); err != nil { // before time goes on, and anything is due
		return nil, Recovered{}, errors.Join(err, s.release())
	}
	if err := s.startArchive(); err != nil { // the last error, and before others make transactions
		return nil, Recovered{}, errors.Join(err, s.release())
	}
	rec.Took = o.Clock.Mono() - began
	s.guard.start()
	s.startReaper()
	if o.Follower {
		s.pauseReaper()
	}
	s.reading() // the guard learns how far the clock is ahead
	s.reapFrom = s.opened
	if o.ReapDelay > 0 {
		s.reapFrom = o.Clock.Now() + o.ReapDelay.Milliseconds()
	}
	s.reapFrom -= s.guard.Ahead()
	s.now() // starts stepBack if the clock is behind the recovered time: all that it reads is set
	s.guard.endStart()
	if !o.NoBackground {
		s.startBackground()
		if rec.Batches > 0 && !s.spaceIsLow() {
			// It would take the last of the disk, and room of the log.
			// Each start opens a new log segment: kill after kill must not pile them up.
			s.StartCheckpoint()
		}
	}
	return s, rec, nil
}

func (s *Store) recover() (rec Recovered, err error) {
	if err := s.options.exists(); err != nil {
		return rec, err
	}
	if err := s.lockDir(); err != nil {
		return rec, err
	}
	phase := s.stopwatch()
	st, err := s.openFile()
	if err != nil {
		return rec, err
	}
	if s.options.Existing {
		s.options.Databases = max(s.options.Databases, len(st.Spaces))
	}
	data := phase()
	s.options.Progress.Begin("loading the data")
	defer s.options.Progress.End()
	// The log is replayed during this proof of the data file. The result of the replay counts only
	// if the proof succeeds.
	proven := make(chan error, 1)
	go func() { proven <- s.file.ProveTree() }()
	defer func() { err = errors.Join(<-proven, err) }()
	r, err := newRecovering(s, st)
	if err != nil {
		return rec, err
	}
	slots := phase()
	replays := newFeed(r)
	if s.options.ReadOnly && !s.options.Member {
		err = s.readLog(st.First, replays)
	} else {
		err = s.openLog(LogPosition{st.First, st.Position}, replays)
	}
	if bad := replays.end(); bad != nil {
		return rec, bad // precedes any other error of the log
	}
	if err != nil {
		return rec, err
	}
	if err := s.recordLog(st); err != nil {
		return rec, err
	}
	if !s.options.ReadOnly || s.options.Member {
		s.follower.applied.Store(s.log.End())
	}
	log := phase()
	s.replayCost.Add(replays.bytes * byteCost)
	if err := r.finish(); err != nil {
		return rec, err
	}
	s.options.Logger.Debug("recovered", "data file", data, "slots", slots, "log", log,
		"counts", phase())
	for db := range s.options.Databases {
		keys, expires := s.Count(db)
		rec.Keys, rec.Deadlines = rec.Keys+keys, rec.Deadlines+expires
	}
	rec.Batches = replays.batches
	return rec, nil
}

// spares returns how many of the segments that a checkpoint releases are kept: as many as the log
// needs until the next checkpoint. So a steady load makes no new segments, which would be filled
// with zeros. The log takes no more disk than when the checkpoint began.
func (o *Options) spares() int {
	return max(wal.DefaultSpares, int(o.CheckpointBytes/o.SegmentSize))
}

// openLog replays the log and opens it.
func (s *Store) openLog(from LogPosition, replays *feed) error {
	keptFrom, err := s.keptFrom()
	if err != nil {
		return err
	}
	s.log, err = s.options.OpenLog(wal.Options{
		FS: s.options.FS, Dir: filepath.Join(s.options.Dir, format.LogDir), Clock: s.clock,
		Logger: s.options.Logger,
		Policy: s.options.Sync, SegmentSize: s.options.SegmentSize, Spares: s.options.spares(),
		Replayed:  replays.end,
		OnDurable: s.options.OnDurable, OnFail: s.fail, NoBackground: s.options.NoBackground,
		Random:   s.options.Random,
		Progress: s.options.Progress, KeepFrom: keptFrom, KeepFree: s.logKeepsFree,
	}, from, replays.batch)
	return err
}

// recordLog records in the data file that there is a log, if it does not say so yet: afterwards a
// start without the log is refused.
func (s *Store) recordLog(st format.State) error {
	if st.First != 0 || s.options.ReadOnly || s.log.First() == 0 {
		return nil
	}
	st.First = s.log.First()
	err := s.updateFile(func(tx *bolt.Tx) error {
		return datafile.PutMeta(tx, format.MetaState, st.Append(nil))
	})
	if OutOfSpace(err) && !errors.Is(err, datafile.ErrUncertain) {
		return nil // the next start tries again
	}
	return err
}

// stopwatch returns a function that returns the time since its last call.
func (s *Store) stopwatch() func() time.Duration {
	last := s.clock.Mono()
	return func() time.Duration {
		now := s.clock.Mono()
		defer func() { last = now }()
		return now - last
	}
}

// lockDir makes the directory and locks it.
func (s *Store) lockDir() (err error) {
	if s.options.ReadOnly {
		s.dirLock, err = s.options.LockForReading()
		return err
	}
	if err := s.makeDir(); err != nil {
		return err
	}
	s.dirLock, err = s.options.lock()
	return err
}

// makeDir creates the data directory and missing directories above it.
func (s *Store) makeDir() error {
	if err := os.MkdirAll(s.options.Dir, 0o700); err != nil {
		return err
	}
	return s.options.FS.MkdirAll(s.options.Dir) // FS need not be the system's
}

// place returns the directory's absolute path, for messages.
func (o *Options) place() string {
	if path, err := filepath.Abs(o.Dir); err == nil {
		return path
	}
	return o.Dir
}

// Exists reports whether a directory has data of Keyp, sound or not.
func Exists(dir string) bool {
	o := Options{FS: vfs.OS, Dir: dir, Existing: true}
	return o.exists() == nil
}

// lockedBy returns the process that has the directory locked; 0: the system does not say.
func (o *Options) lockedBy() (pid int) { return vfs.Holder(filepath.Join(o.Dir, lockFile)) }

// lock locks the directory, which also proves that it can be written.
func (o *Options) lock() (io.Closer, error) {
	const pause = 20 * time.Millisecond
	began, warned := o.Clock.Mono(), false
	for {
		lock, err := vfs.OS.Lock(filepath.Join(o.Dir, lockFile))
		if !errors.Is(err, vfs.ErrLocked) {
			return lock, err
		}
		if o.Clock.Mono()-began >= o.LockWait {
			if pid := o.lockedBy(); pid != 0 {
				return nil, fmt.Errorf("%w: %s, process %d", ErrLocked, o.place(), pid)
			}
			return nil, fmt.Errorf("%w: %s", ErrLocked, o.place())
		}
		if !warned {
			about := []any{"dir", o.place(), "longest", o.LockWait.String()}
			if pid := o.lockedBy(); pid != 0 {
				about = append(about, "process", pid)
			}
			o.Logger.Warn("another process uses the data directory; waiting for its end", about...)
			warned = true
		}
		time.Sleep(pause)
	}
}

// Close ends the store. It makes a last checkpoint if save is true, syncs the log and closes the
// files. No transaction may be under way or come later.
func (s *Store) Close(save bool) error {
	s.stop()
	s.log.GiveUp() // a checkpoint may wait for it
	s.background.Wait()
	var err error
	full := s.Full() || errors.Is(s.log.Err(), wal.ErrNoRoom)
	if save && !full && s.Err() == nil {
		switch err = s.Checkpoint(); {
		case OutOfSpace(err):
			full, err = true, nil
		case errors.Is(err, ErrDeposed):
			err = nil // it is logged, and the log has everything
		}
	}
	if save && full {
		s.options.Logger.Warn("closing without a checkpoint, since the disk is full: the log has everything, and the next start reads it")
	}
	s.endArchive()
	closed := s.log.Close()
	if full && errors.Is(closed, wal.ErrNoRoom) {
		closed = nil // what could not be written was never acknowledged
	}
	return errors.Join(err, closed, s.release())
}

// release closes the data file and unlocks the directory.
func (s *Store) release() (err error) {
	s.stop()
	s.checkpointer.mu.Lock() // no snapshot is being opened
	s.file.GiveUp()
	s.checkpointer.mu.Unlock()
	err = s.file.Close()
	if s.dirLock != nil {
		err = errors.Join(err, s.dirLock.Close())
	}
	return err
}

// fail notes the failure that ends the store.
func (s *Store) fail(err error) {
	if s.failed.CompareAndSwap(nil, &err) {
		s.options.Logger.Error("the store has failed and accepts no more writes", "error", err)
		if s.options.OnFail != nil {
			s.options.OnFail(err)
		}
	}
}

// Err returns the failure that ended the store, or nil.
func (s *Store) Err() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return s.log.Err()
}

// Log returns the store's log, for the caller to commit.
func (s *Store) Log() Journal { return s.log }

// Databases returns the number of databases.
func (s *Store) Databases() int { return s.options.Databases }

// Listen sets the function that gets the events of the classes that SetEvents enables, before or
// afterwards. The goroutine that made a change calls it while the shards are still locked. So
// events of a key come in the order of its changes; fn must be quick and must not call the store.
func (s *Store) Listen(fn func(Happened)) { s.onEvent.Store(&fn) }

// SetEvents sets the classes of events for Listen's function.
func (s *Store) SetEvents(mask EventClass) { s.eventMask.Store(uint32(mask)) }

// SetMaxMemory changes MaxMemory.
func (s *Store) SetMaxMemory(n int64) { s.maxMemory.Store(n) }

// SetDiskReserve changes DiskReserve; 0 is none.
func (s *Store) SetDiskReserve(n uint64) { s.diskReserve.Store(n) }

// SetSync changes when writes may be acknowledged.
func (s *Store) SetSync(p wal.Policy) { s.log.SetPolicy(p) }

// Count returns how many keys a database has, and how many of them have a deadline. Keys whose
// deadline has come count until they are removed. It reads no disk.
func (v View) Count(db int) (keys, expires int64) {
	v.each(db, func(p *part) { keys, expires = keys+p.keys, expires+p.expires })
	return keys, expires
}

// CountTimed returns the number of keys of a database that have elements with a deadline: fields,
// members or entries. As Count does, it counts due elements until they are removed.
func (v View) CountTimed(db int) (n int64) {
	v.each(db, func(p *part) { n += p.timed })
	return n
}

// part returns the part of a key, whose shard is locked. nil: the database has no key there.
func (s *Store) part(k Key) *part { return s.shards[s.shardOf(k.Slot)].mu.parts[k.DB] }

// partOf returns the part of a keyspace in a shard, and makes it if missing. It returns nil if no
// database has that keyspace any more.
func (s *Store) partOf(space uint32, sh *shard) *part {
	for db, id := range s.spaces.ids {
		if id == space {
			if sh.mu.parts[db] == nil {
				sh.mu.parts[db] = newPart(sh, space, s.slotsPerShard)
			}
			return sh.mu.parts[db]
		}
	}
	return nil
}

// now returns the store's time, in Unix ms. It never runs backwards: when the wall clock steps
// back, the time stands still until everything due so far is removed (reap.go). Then it follows the
// clock. When the wall clock steps forward by much, time stays behind (guard.go). Members of a
// group have one time (grouptime.go).
func (s *Store) now() int64 {
	if s.follows() && !s.groupTime.known.Load() {
		return s.guessTime()
	}
	for {
		// The clock is read after the instant. So a reading from before a step back cannot
		// move the instant forward again after it has followed the clock.
		last := s.instant.Load()
		wall := s.reading()
		if wall <= last {
			if wall < last && !s.stepped.Load() {
				s.clockStepped(wall, last)
			}
			return last
		}
		if s.instant.CompareAndSwap(last, wall) {
			return wall
		}
	}
}

// FlushDB empties a database: the database gets a new keyspace, and the old keyspace is garbage. It
// needs BeginAll. It logs nothing for a database that had no key since it was last emptied.
func (t *Txn) FlushDB(db int) {
	s := t.s
	empty := true
	for _, sh := range s.shards {
		empty = empty && sh.mu.parts[db] == nil
		t.seen = max(t.seen, sh.mu.flushLSN)
	}
	if !empty {
		id := s.spaces.next
		t.record(format.RecFlush, uint64(db), uint64(id))
		s.flush(db, id)
		t.flushed()
	}
	t.changingAll(db)
}

// SwapDB exchanges two databases. It needs BeginAll.
func (t *Txn) SwapDB(a, b int) {
	t.record(format.RecSwap, uint64(a), uint64(b))
	t.s.swap(a, b)
	t.noteSwap(a, b)
}

// noteSwap makes later look-ups in two databases depend on this transaction, which has exchanged
// them.
func (t *Txn) noteSwap(a, b int) {
	for _, sh := range t.s.shards {
		for _, p := range []*part{sh.mu.parts[a], sh.mu.parts[b]} {
			if p != nil {
				t.swapped = append(t.swapped, p)
			}
		}
	}
	t.changingAll(a)
	t.changingAll(b)
	t.flushed()
}

func (s *Store) flush(db int, id uint32) {
	s.dropSpace(s.spaces.ids[db], db)
	s.later.forget(s.spaces.ids[db])
	s.spaces.ids[db] = id
	s.spaces.next = max(s.spaces.next, id+1)
	for _, sh := range s.shards {
		sh.forget(db)
	}
}

func (s *Store) swap(a, b int) {
	s.spaces.ids[a], s.spaces.ids[b] = s.spaces.ids[b], s.spaces.ids[a]
	s.spaces.swaps[a]++
	s.spaces.swaps[b]++
	for _, sh := range s.shards {
		sh.mu.parts[a], sh.mu.parts[b] = sh.mu.parts[b], sh.mu.parts[a]
	}
}

// forget drops a part and its memory.
func (sh *shard) forget(db int) {
	if p := sh.mu.parts[db]; p != nil {
		for _, sl := range p.allUsed() {
			if sl.partial {
				sh.store.partials.Add(-1)
			}
			sl.table = hashtable.Table{} // a checkpoint may still look keys up
		}
		p.dead = true
		p.slabs.Drop()
		sh.mu.parts[db] = nil
	}
}

// flushed makes every later miss depend on this transaction.
func (t *Txn) flushed() { t.flush, t.stated = true, t.stated+1 }

// Reachable returns the reason why files cannot be written into the data directory, nil if they
// can. The directory may be removed, or on a disk that is gone, while open files still work. The
// error has no path.
func (s *Store) Reachable() error {
	const exists, mayWrite = 0, 2
	if err := syscall.Access(s.options.Dir, mayWrite); err != nil {
		return err
	}
	// A removed directory may still pass the first check.
	return syscall.Access(filepath.Join(s.options.Dir, lockFile), exists)
}
