package storage

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/format"
)

// The data file keeps free pages for later use and never gets shorter. Compaction copies it into a
// new file, which then replaces it:
//
//  1. Apply the pending changes to the bucket ttl (pending.go). Copy every bucket in key order to
//     keyp.db.compact, in transactions of bounded size, each synced, with nearly full pages.
//  2. Prove that the copy is sound and has as many entries.
//  3. Rename it to keyp.db, sync the directory, open the new file, and close the old file after its
//     last reader is done.
//
// It locks checkpointer.mu, so only the compaction writes to either file. Both files have the same
// content, with the same first log segment, until the new one's name is synced. So a crash may
// leave either of them as keyp.db, and both are right: before the sync of the directory no
// checkpoint can have released a log segment that the old one needs. An unfinished copy never has
// the name keyp.db, and the next start removes it.
//
// Keys are read and written during a compaction. Checkpoints wait for it, so it gives up when the
// log or memory gets so full that writers would be slowed down.
const (
	compactFile = format.DataName + ".compact"
	// compactFill leaves room for a few more entries on each page; full ones would all be
	// split by the next checkpoint.
	compactFill = 0.9
	// compactGrowth is the step in which the copy grows; bbolt's default of 16 MB would stay unused
	// in it.
	compactGrowth = 1 << 20

	// A running store checks every compactInterval whether a compaction of its data file is worth
	// its cost. It waits for compactBackoff after each attempt.
	compactInterval = time.Minute
	compactBackoff  = 10 * time.Minute
	compactMin      = 256 << 20
	// On a full disk it checks every roomInterval whether a compaction would free space. The data
	// file must have roomMin bytes for that.
	roomInterval = 2 * time.Second
	roomMin      = 1 << 20
	// staleBytes is how many bytes of changed keys in memory are worth a checkpoint. That applies
	// if the log grew by less than quietBytes since the last check, so that it will not cause one
	// soon. It also applies if these bytes are more than four times the size of the log.
	staleBytes = 32 << 20
	quietBytes = 1 << 20
)

// errCompactStopped wraps the reason why a compaction was given up. The data file is as it was.
var errCompactStopped = errors.New("storage: the compaction was given up")

// Compact makes the data file as short as its content allows. It returns the length in bytes before
// and after; both are equal if there was nothing to gain. Keys are served meanwhile; checkpoints
// wait.
//
// An error before or at the renaming leaves the old file in use. If the sync of the directory or
// the opening of the new file then fails, the store ends. An error of applying the pending changes
// is handled as one of a checkpoint (notWritten).
func (s *Store) Compact() (before, after int64, err error) {
	s.checkpointer.mu.Lock()
	defer s.checkpointer.mu.Unlock()
	if err := s.Err(); err != nil {
		return 0, 0, err
	}
	if s.file.snapshots.any() {
		return 0, 0, fmt.Errorf("%w: a snapshot of the data file is open", errCompactStopped)
	}
	if err := s.checkpointer.makePending(); err != nil {
		s.checkpointer.notWritten(err)
		return 0, 0, err
	}
	before, unused := s.file.use()
	if room, err := s.options.FS.Free(s.options.Dir); err == nil && room < uint64(before-unused) {
		return before, before, fmt.Errorf("%w: the copy may take %d bytes, and the disk has %d: %w",
			errCompactStopped, before-unused, room, syscall.ENOSPC)
	}
	path := filepath.Join(s.options.Dir, compactFile)
	if err := removeFile(path); err != nil {
		return before, before, err
	}
	after, err = s.checkpointer.compactInto(path)
	if err == nil && after < before {
		err = s.options.Testing.step(StepProven)
	}
	if err != nil || after >= before {
		return before, before, errors.Join(err, removeFile(path))
	}
	return before, after, s.checkpointer.replaceData(path)
}

// compactInto writes a compact copy of the data file and returns its length.
func (cp *checkpointer) compactInto(path string) (size int64, err error) {
	s := cp.s
	to, _, err := s.file.openBolt(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	to.AllocSize, to.NoSync = compactGrowth, s.file.mu.db.NoSync
	c := compaction{s: s, to: to, low: s.spaceIsLow(), began: workBegan(),
		entries: map[string]int{}}
	s.options.Progress.Begin("compacting the data file")
	defer s.options.Progress.End()
	if err := s.file.view(c.copy); err != nil {
		return 0, err
	}
	s.options.Progress.Begin("checking the compacted data file")
	s.options.Progress.Expect(c.bytes)
	if err := viewRecovering(to, c.prove); err != nil {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// replaceData replaces the data file by the file at path.
func (cp *checkpointer) replaceData(path string) error {
	s := cp.s
	to := filepath.Join(s.options.Dir, format.DataName)
	if err := os.Rename(path, to); err != nil {
		return errors.Join(err, removeFile(path))
	}
	db, data, err := cp.reopenData(to)
	if err != nil {
		// It is unknown which file a restart will find. Either is good as long as no checkpoint
		// writes to one and releases log segments that the other needs.
		err = fmt.Errorf("storage: the compacted data file: %w", err)
		s.fail(err)
		return errors.Join(err, s.file.mu.db.Close())
	}
	s.file.mu.Lock() // waits for the readers of the old file
	old := s.file.mu.db
	s.file.mu.db, s.file.mu.out = db, data
	s.file.mu.Unlock()
	return errors.Join(s.options.Testing.step(StepReplaced), old.Close())
}

func (cp *checkpointer) reopenData(path string) (*bolt.DB, DataFile, error) {
	s := cp.s
	if err := s.options.Testing.step(StepRenamed); err != nil {
		return nil, nil, err
	}
	if err := s.file.syncDir(); err != nil {
		return nil, nil, err
	}
	db, data, err := s.file.openBolt(path)
	if err != nil {
		return nil, nil, err
	}
	db.NoSync = s.file.mu.db.NoSync
	return db, data, nil
}

// removeFile removes a file that may be missing.
func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// compaction is the state of a compaction that is under way.
type compaction struct {
	s       *Store
	to      *bolt.DB
	low     bool           // the disk was nearly full before
	began   time.Duration  // the present stretch of work
	entries map[string]int // copied, by bucket; nil: that is not known
	bytes   int64          // copied
}

// at ends a stretch of work: it pauses for clients as a checkpoint does, and returns an error when
// the compaction must give up.
func (c *compaction) at(step Step) error {
	s := c.s
	s.checkpointer.pace(c.began)
	c.began = workBegan()
	if err := s.options.Testing.step(step); err != nil {
		return err
	}
	switch {
	case s.quit.Err() != nil:
		return fmt.Errorf("%w: %w", errCompactStopped, ErrClosed)
	case !c.low && s.checkpointer.hurry.Load():
		return fmt.Errorf("%w: checkpoints cannot wait", errCompactStopped)
	case !c.low && s.spaceIsLow():
		return fmt.Errorf("%w: the disk is nearly full: %w", errCompactStopped, syscall.ENOSPC)
	}
	return nil
}

func (c *compaction) copy(from *bolt.Tx) error {
	c.s.options.Progress.Expect(from.Size() - int64(from.DB().Stats().FreePageN)*format.PageSize)
	for _, name := range format.Buckets {
		var batch []copied
		size := 0
		err := each(from, name, nil, nil, func(k, v []byte) error {
			both := append(append(make([]byte, 0, len(k)+len(v)), k...), v...)
			batch = append(batch, copied{both[:len(k):len(k)], both[len(k):]})
			c.bytes += int64(len(both))
			c.s.options.Progress.Done(int64(len(both)))
			if size += len(both); size < batchBytes {
				return nil
			}
			err := c.put(name, batch)
			batch, size = batch[:0], 0
			return err
		})
		if err == nil {
			err = c.put(name, batch) // makes the bucket if there is nothing
		}
		if err != nil {
			return err
		}
	}
	// Commit again, so that both meta pages lead to all of it (see commitAgain).
	return updateNew(c.to, func(*bolt.Tx) error { return nil })
}

// copied is an entry on its way to the copy.
type copied struct{ key, value []byte }

// put adds entries of a bucket to the copy.
func (c *compaction) put(name []byte, batch []copied) error {
	err := updateNew(c.to, func(tx *bolt.Tx) error {
		dst, err := tx.CreateBucketIfNotExists(name)
		if err != nil {
			return err
		}
		dst.FillPercent = compactFill
		for _, e := range batch {
			if err := dst.Put(e.key, e.value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.entries[string(name)] += len(batch)
	return c.at(StepBatch)
}

// proveStep is the number of entries after which a proof pauses for clients.
const proveStep = 50_000

// prove reads the new file: it has every entry that was copied, all checksums match, each slot has
// the number of keys and the digest of its entry, and records and ttl have the same deadlines.
// Check compares with memory too, but takes memory for all keys at once.
func (c *compaction) prove(tx *bolt.Tx) error {
	p := proof{c: c, tx: tx, seed: maphash.MakeSeed(), slots: map[string]format.SlotEntry{}}
	err := errors.Join(
		p.each(format.BucketValues, p.value), p.each(format.BucketElements, p.element),
		p.each(format.BucketTTL, p.ttl),
		p.each(format.BucketSlots, p.slot), p.each(format.BucketMeta, nil),
		p.each(format.BucketGarbage, nil), p.each(format.BucketPending, nil))
	if err != nil {
		return err
	}
	if len(p.slots) != 0 {
		return fmt.Errorf("%w: %d slots have records and no entry", ErrCorrupt, len(p.slots))
	}
	pending, _ := tx.Bucket(format.BucketPending).Cursor().First()
	// Else a checkpoint was interrupted, and ttl has not all of its changes.
	exact := pending == nil && tx.Bucket(format.BucketMeta).Get(format.MetaDoubt) == nil
	if exact && p.deadlines != 0 {
		return fmt.Errorf("%w: ttl has other deadlines than the records", ErrCorrupt)
	}
	return nil
}

// proof is the state of prove's reading of a data file.
type proof struct {
	c     *compaction
	tx    *bolt.Tx
	seed  maphash.Seed
	slots map[string]format.SlotEntry // by the records, of slots whose entry was not met
	// The exclusive or of the hashes of all deadlines in the records and in the bucket ttl. It is 0
	// if both have the same deadlines.
	deadlines uint64
}

// each calls fn for the entries of a bucket; an error of fn becomes ErrCorrupt with the entry's
// name.
func (p *proof) each(name []byte, fn func(at, v []byte) bool) error {
	n := 0
	err := p.tx.Bucket(name).ForEach(func(at, v []byte) error {
		p.c.s.options.Progress.Done(int64(len(at) + len(v)))
		if n++; n%proveStep == 0 {
			if err := p.c.at(StepProving); err != nil {
				return err
			}
		}
		if fn != nil && !fn(at, v) {
			return fmt.Errorf("%w: entry %x of bucket %s", ErrCorrupt, at[:min(len(at), 64)], name)
		}
		return nil
	})
	if want := p.c.entries[string(name)]; err == nil && p.c.entries != nil && n != want {
		err = fmt.Errorf("%w: %d entries were copied to bucket %s, and it has %d", ErrCorrupt, want,
			name, n)
	}
	return err
}

func (p *proof) value(at, record []byte) bool {
	im, err := format.ParseImage(at, record)
	if err != nil || im.BadTime {
		return false
	}
	d := p.slots[string(at[:6])]
	d.Add(record)
	p.slots[string(at[:6])] = d
	if due := im.Due(); due != 0 {
		p.deadlines ^= maphash.Bytes(p.seed, format.TTLKey(nil, due, at))
	}
	return true
}

func (p *proof) element(at, record []byte) bool {
	_, _, _, err := format.ParseElement(at, record)
	return err == nil
}

func (p *proof) ttl(at, v []byte) bool {
	_, ok := format.ParseTTL(at, v)
	p.deadlines ^= maphash.Bytes(p.seed, at)
	return ok
}

// slot compares a slot's entry with its records. In a keyspace that is garbage they may differ,
// since the records are deleted before the entry.
func (p *proof) slot(at, v []byte) bool {
	n := format.ParseSlotKey(at)
	says, ok := format.ParseSlot(at, v)
	sound := p.slots[string(at)] == says || n.OK && isGarbage(p.tx, n.Space)
	delete(p.slots, string(at))
	return n.OK && ok && sound
}

// compactLoop keeps the data file of a running store in proportion to its content.
func (cp *checkpointer) compactLoop() {
	s := cp.s
	tick, lookForRoom := time.NewTicker(compactInterval), time.NewTicker(roomInterval)
	defer tick.Stop()
	defer lookForRoom.Stop()
	var tried time.Duration // when it last compacted for room, a reading of Mono
	for was := s.log.End(); ; {
		select {
		case <-lookForRoom.C:
			if now := s.clock.Mono(); s.Full() && (tried == 0 || now-tried > compactInterval) &&
				cp.compactingFrees() {
				tried = now
				cp.compactAndLog()
			}
			continue
		case <-tick.C:
		case <-s.quit.Done():
			return
		}
		end := s.log.End()
		cp.refresh(end - was)
		was = end
		if size, unused := s.file.use(); cp.worthCompacting(size, unused) {
			cp.compactAndLog()
			tick.Reset(compactBackoff)
		} else {
			tick.Reset(compactInterval)
		}
	}
}

// refresh starts a checkpoint if memory is stale; grown is by how much the log grew since the
// last look.
func (cp *checkpointer) refresh(grown uint64) {
	if cp.stale(grown) && cp.mayStart() {
		cp.s.StartCheckpoint()
	}
}

// stale reports whether memory has many changes that the data file does not have, while the log
// grows too slowly to cause a checkpoint. Most expired keys add nothing to the log, and until a
// checkpoint they stay in the file, and as tombstones in memory.
func (cp *checkpointer) stale(grown uint64) bool {
	_, dirty := cp.s.measure()
	return dirty > staleBytes && (grown < quietBytes || dirty > 4*cp.s.log.Size())
}

// worthCompacting reports whether most of the data file is unused, and whether there is room for
// the copy and for the log's growth until the next checkpoint, which has to wait.
func (cp *checkpointer) worthCompacting(size, unused int64) bool {
	s := cp.s
	if size < compactMin || unused < size/2 {
		return false
	}
	room, err := s.options.FS.Free(s.options.Dir)
	return err == nil && room > uint64(size-unused)+uint64(2*s.options.CheckpointBytes)+
		s.diskReserve.Load()
}

// compactingFrees reports whether a compaction would free space on a full disk. That is so if most
// of the data file is unused, and there is room for the copy. The log hardly grows meanwhile.
func (cp *checkpointer) compactingFrees() bool {
	size, unused := cp.s.file.use()
	used := size - unused
	room, err := cp.s.options.FS.Free(cp.s.options.Dir)
	return err == nil && size >= roomMin && unused > size/2 && room > uint64(used+used/4+roomMin)
}

func (cp *checkpointer) compactAndLog() {
	s := cp.s
	began := s.clock.Mono()
	before, after, err := s.Compact()
	took := (s.clock.Mono() - began).Round(time.Millisecond)
	switch {
	case errors.Is(err, errCompactStopped):
		s.options.Logger.Info("the data file was not compacted; it is as it was", "reason",
			err, "took", took)
	case err != nil:
		s.options.Logger.Error("the data file could not be compacted", "error", err, "took", took)
	default:
		s.options.Logger.Info("the data file was compacted", "before", before, "after",
			after, "took", took)
	}
}
