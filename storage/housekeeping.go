package storage

import (
	"keyp/storage/procmem"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"
	"unsafe"

	"keyp/storage/format"
	"keyp/storage/hashtable"
	"keyp/ttl"
)

// housekeeper keeps the store's memory within MaxMemory and its log short.
type housekeeper struct {
	s *Store // constant

	// Of its goroutine alone.
	overhead   procmem.Overhead
	heapDefrag heapDefrag
	tight      atomic.Bool   // the last round freed much less than it should have
	began      time.Duration // when it last started a checkpoint, a reading of Mono

	// Written by its goroutine.
	memory   atomic.Int64 // as of the last round
	charged  atomic.Int64 // overhead, as of the last round
	lowSpace atomic.Bool  // a failed checkpoint sets it, too
	wasFull  bool         // as reportFull last found it
	needed   atomic.Int64 // bytes of the disk that a checkpoint would take, as of the last round
	// Bytes of the disk that a new segment of the log leaves free for a checkpoint.
	kept     atomic.Int64
	keptAt   atomic.Uint64 // where the log ended when kept was found
	throttle atomic.Int64  // nanoseconds
	pace     atomic.Int64  // nanoseconds for each MiB of a commit, in addition
}

// startBackground starts the background goroutines: reaper, loaders, checkpointer, housekeeping.
func (s *Store) startBackground() {
	end := s.log.End()
	used, dirty := s.measure() // after recovery: the loader's budget depends on it
	s.house.memory.Store(used)
	s.house.lookAtNeeds(end, used, dirty, false)
	s.goBackground(func() {
		lowerPriority()
		s.awaitReapDelay()
		s.reaper.Run(s.quit)
	})
	for range loadWorkers {
		s.goBackground(s.loads.loop)
	}
	s.goBackground(s.loads.loadAll)
	s.goBackground(s.checkpointer.loop)
	s.goBackground(s.house.loop)
	s.goBackground(s.runHooks)
	s.goBackground(s.checkpointer.compactLoop)
}

func (s *Store) goBackground(run func()) {
	s.background.Add(1)
	go func() {
		defer s.background.Done()
		run()
	}()
}

func (cp *checkpointer) loop() {
	for {
		select {
		case <-cp.kick:
			_ = cp.s.Checkpoint() // it has logged its error, and Err returns a fatal one
			cp.wanted.Add(-1)
			debug.FreeOSMemory() // its batches and pages are garbage, a hundred MB and more
		case <-cp.s.quit.Done():
			return
		}
	}
}

const (
	houseInterval = 100 * time.Millisecond
	// A checkpoint starts when replaying the log would take replayBudget, by replayTime's estimate.
	// During the checkpoint the log grows further, under a heavy load to two or three times as
	// much. So a restart takes 2.4 s at the worst moment.
	replayBudget = 800 * time.Millisecond
	// smallSegment is the room that a new segment leaves free for the segment that a checkpoint
	// begins.
	smallSegment = 1 << 20
	// releaseBytes is the least size of the log for a checkpoint that starts because the disk is
	// full. Each checkpoint begins a segment, even if few keys are deleted.
	releaseBytes = 64 << 10
	// dirtyShare is the part of MaxMemory that may be dirty before a checkpoint starts.
	dirtyShare = 0.25
)

func (h *housekeeper) loop() {
	tick := time.NewTicker(houseInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			h.round()
		case <-h.s.quit.Done():
			return
		}
	}
}

func (h *housekeeper) round() {
	s := h.s
	s.guard.keep()
	end := s.log.End()
	used, dirty := s.measure()
	h.memory.Store(used)
	limit := s.maxMemory.Load()
	process := procmem.Read()
	charged := h.overhead.Charge(process, s.clock.Mono(), used, limit)
	h.charged.Store(charged)
	low := s.spaceIsLow()
	if low {
		s.log.DropSpares()
	}
	h.lookAtNeeds(end, used, dirty, low)
	h.slowDown(used+charged, dirty, limit)
	s.file.GiveUp()
	due := s.log.Size() > s.options.CheckpointBytes ||
		s.replayTime() > replayBudget ||
		limit > 0 && float64(dirty) > dirtyShare*float64(limit) ||
		(low || s.log.Full() || h.spaceIsTight()) && h.mayFreeSpace()
	if due && s.checkpointer.mayStart() && s.StartCheckpoint() {
		h.began = s.clock.Mono()
	}
	if low && s.archiver != nil {
		s.archiver.GiveUp()
	}
	h.lowSpace.Store(low)
	h.reportFull()
	if over := used + charged - limit; limit > 0 && over > 0 {
		left := h.evict(over)
		h.overhead.Left(left)
		h.tight.Store(left < min(over, evictBytes)/2)
	}
	h.defragment()
	h.defragmentHeap(process, limit)
	h.freeTables()
}

// mayFreeSpace reports whether a checkpoint would release segments of the log or room in the data
// file, or would begin a segment after a full one. On a full disk there is a pause between two
// checkpoints; it is longer if only few keys have changed.
func (h *housekeeper) mayFreeSpace() bool {
	const pause, longPause = time.Second, 5 * time.Second
	switch since := h.s.clock.Mono() - h.began; {
	case since < pause:
		return false
	case h.s.log.Size() > releaseBytes || h.s.garbage.waits() || h.s.LogRoom(0) > RoomForSmall:
		return true
	default:
		return since >= longPause && h.s.changes.Load() > 0
	}
}

// spaceIsTight reports whether the log will soon be full: most of the free space is kept for a
// checkpoint. Then a checkpoint starts before commands are refused.
func (h *housekeeper) spaceIsTight() bool {
	free, err := h.s.options.FS.Free(h.s.options.Dir)
	kept := h.s.logKeepsFree()
	return err == nil && kept > 0 && free < kept+kept/2
}

// lookAtNeeds finds out how much of the disk checkpoints need. used is how many bytes of keys
// memory had when the log ended at the position end, and dirty is how many of these bytes were
// dirty.
func (h *housekeeper) lookAtNeeds(end uint64, used, dirty int64, low bool) {
	s := h.s
	_, segment := s.log.Room()
	begins := segment // by a checkpoint
	if low || s.log.Full() {
		begins = s.log.NextCost()
	}
	h.needed.Store(max(begins, releaseBytes) + s.growth(dirty+dirty/4, used))
	// The quarters are for index pages, the ends of pages, and data written before the next round.
	// A segment that is made now and the one before it are filled first.
	filled := dirty + 2*segment
	h.kept.Store(min(segment, smallSegment) + s.growth(filled+filled/4, used+2*segment))
	h.keptAt.Store(end)
}

// freeTables frees the memory of databases that have become empty.
func (h *housekeeper) freeTables() {
	for _, sh := range h.s.shards {
		if sh.lockPassingGlobal() {
			for _, p := range sh.mu.parts {
				if p != nil {
					p.freeTables()
				}
			}
			sh.mu.Unlock()
		}
	}
}

// These are the times for which no checkpoint starts by itself after a failed one. The reasons are
// a full disk, damage of the data file, and that another server leads the log.
const (
	roomBackoff    = 5 * time.Second
	damageBackoff  = 10 * time.Minute
	deposedBackoff = time.Second
)

func (cp *checkpointer) backOff(d time.Duration) {
	cp.backoffUntil.Store(int64(cp.s.clock.Mono() + d))
}

// mayStart reports whether a checkpoint may start by itself. Without room for its writes it would
// fail, and leave no room. It may use the reserve, since it releases segments of the log. After
// damage none starts before the log has grown: it would only fail again.
func (cp *checkpointer) mayStart() bool {
	if int64(cp.s.clock.Mono()) < cp.backoffUntil.Load() || cp.s.log.End() == cp.damagedAt.Load() {
		return false
	}
	free, err := cp.s.options.FS.Free(cp.s.options.Dir)
	return err == nil && uint64(cp.s.house.needed.Load()) < free
}

// spaceIsLow reports whether less than the reserve is free. Half of the reserve is for checkpoints.
// This half may be unused space of the data file: a checkpoint uses that first.
func (s *Store) spaceIsLow() bool {
	free, err := s.options.FS.Free(s.options.Dir)
	reserve := s.diskReserve.Load()
	if err != nil || free >= reserve {
		return false
	}
	_, unused := s.file.Use()
	return free+min(uint64(unused), reserve/2) < reserve
}

// Full reports whether writes that need memory are refused because the disk is full. It turns false
// by itself when there is room again.
func (s *Store) Full() bool { return s.house.lowSpace.Load() || s.log.Full() }

// LogRoom is a class of records: the log still has room for the records of this class.
type LogRoom uint8

// The values of LogRoom. Each means less room than the one before.
const (
	RoomForAll   LogRoom = iota // a further segment can be made
	RoomForSmall                // half of the last segment is left: for records that are small
	RoomToFree                  // an eighth is left: for what frees space
	NoRoom                      // the rest is for the server's own removals of what is due
)

// LogRoom returns the records for which the log has room after a further number of bytes. A command
// that needs more room waits until there is some.
func (s *Store) LogRoom(bytes int) LogRoom {
	if !s.log.Full() {
		return RoomForAll
	}
	left, size := s.log.Room()
	switch left -= int64(bytes); {
	case left < size/8:
		return NoRoom
	case left < size/2:
		return RoomToFree
	}
	return RoomForSmall
}

// logKeepsFree returns the number of bytes on disk that a new segment of the log leaves free for
// checkpoints, which release other segments. It is half of the reserve, or the need of a checkpoint
// if that is more. Without a reserve it is 0.
func (s *Store) logKeepsFree() uint64 {
	reserve := s.diskReserve.Load()
	if reserve == 0 {
		return 0
	}
	kept, at := uint64(s.house.kept.Load()), s.house.keptAt.Load()
	if at > 0 { // otherwise the log is being opened
		written := s.log.End() - at
		kept += written + written/4
	}
	return max(reserve/2, kept)
}

// reportFull logs when writes begin to be refused since the disk is full, and when that ends.
func (h *housekeeper) reportFull() {
	full := h.s.Full()
	if full == h.wasFull {
		return
	}
	h.wasFull = full
	free, _ := h.s.options.FS.Free(h.s.options.Dir) // only shown
	needed := h.s.diskReserve.Load()
	if h.s.log.Full() {
		needed = max(needed, h.s.logKeepsFree())
	}
	log := h.s.options.Logger.With("free_bytes", free, "needed_bytes", needed)
	if full {
		log.Error(
			"the disk is full: commands that may grow the data are refused until there is room")
		return
	}
	log.Warn("the disk has room again: no command is refused for it any more")
}

// measure sums the memory of all shards, and how much of it is dirty.
func (v View) measure() (used, dirty int64) {
	for _, sh := range v.s.shards {
		u, d := v.measureShard(sh)
		used, dirty = used+u, dirty+d
	}
	return used, dirty
}

// measureShard measures one shard, as measure does. While the global transaction has the shard it
// returns the last measurement.
func (v View) measureShard(sh *shard) (used, dirty int64) {
	if v.t == nil {
		if !sh.lockPassingGlobal() {
			return sh.used.Load(), sh.dirty.Load()
		}
		defer sh.mu.Unlock()
	}
	resident := int64(0)
	for db, p := range sh.mu.parts {
		if p == nil {
			continue
		}
		used += p.memory()
		dirty += p.dirty - p.cleanInDirty()
		if db < v.s.options.Databases {
			resident += int64(p.cells - p.tombs)
		}
	}
	sh.used.Store(used)
	sh.dirty.Store(dirty)
	sh.resident.Store(resident)
	return used, dirty
}

const (
	cellBytes  = 8 * 2 // at the usual load, buckets included
	indexBytes = 24    // of an entry, at the usual load
)

func (p *part) memory() int64 {
	return p.slabs.Bytes() + p.objects.bytes + int64(p.index.Len())*indexBytes +
		int64(p.index.Postponed())*ttl.PostponedBytes +
		int64(p.cells)*cellBytes + p.slotMemory()
}

// slotMemory returns the memory of the slots themselves, in bytes.
func (p *part) slotMemory() (n int64) {
	for _, g := range p.groups {
		if g != nil {
			n += int64(unsafe.Sizeof(*g))
		}
	}
	return n + int64(len(p.groups))*8
}

// usedMemory returns the bytes of memory in use at the last round of housekeeping. It includes the
// overhead that is charged to the keys.
func (s *Store) usedMemory() int64 { return s.house.memory.Load() + s.house.charged.Load() }

const (
	// evictBytes bounds the bytes that leave memory in a round of housekeeping, which has more to
	// do.
	evictBytes = 64 << 20
	// evictLooks bounds how often a round finds no key in a slot that can leave memory. There may
	// be no such key at all.
	evictLooks = 4096
)

// evict removes clean keys from memory until about excess bytes are free, or a bound of the round
// is reached; the data file has them. It chooses slots at random; in each, the least recently used
// keys leave first, until half of them have. It returns how many bytes have left.
func (h *housekeeper) evict(excess int64) (left int64) {
	s := h.s
	excess = min(excess, evictBytes)
	if left = h.leaveRuns(excess); left >= excess {
		return left
	}
	dbs := h.withParts()
	for looks := 0; looks < evictLooks && len(dbs) > 0; {
		r := s.options.Random() % Slots
		sh, i := s.shards[s.shardOf(uint16(r))], int(r)%s.slotsPerShard
		for _, db := range dbs {
			freed := h.evictEnough(sh, db, i, excess-left)
			if left += freed; left >= excess || s.quit.Err() != nil {
				return left
			}
			if freed == 0 {
				looks++
			}
		}
	}
	return left
}

// Trim evicts keys that the data file contains while memory holds more than MaxMemory. It is for
// tools that read all keys without background work. Data that only the log contains stays in
// memory.
func (s *Store) Trim() {
	const worth = 16 // it ends when a round frees less than this part of what is too much
	for {
		used, _ := s.measure()
		over := used - s.maxMemory.Load()
		if over <= 0 || s.house.evict(over) < min(over, evictBytes)/worth {
			return
		}
	}
}

// withParts returns the databases that may have keys, including the one with the server's own data.
func (h *housekeeper) withParts() (dbs []int) {
	have := make([]bool, h.s.options.Databases+1)
	for _, sh := range h.s.shards {
		if sh.lockPassingGlobal() {
			for db := range have {
				have[db] = have[db] || sh.mu.parts[db] != nil
			}
			sh.mu.Unlock()
		}
	}
	for db, has := range have {
		if has {
			dbs = append(dbs, db)
		}
	}
	return dbs
}

// evictSlot removes keys of a slot from memory.
func (h *housekeeper) evictSlot(sh *shard, db, i int) (freed int64) {
	return h.evictEnough(sh, db, i, math.MaxInt64)
}

// evictEnough removes keys of a slot from memory until enough bytes are free. It goes from bucket
// to bucket of the slot's table, from a random one on, and unlocks the shard in between.
func (h *housekeeper) evictEnough(sh *shard, db, i int, enough int64) (freed int64) {
	buckets := h.bucketsOf(sh, db, i)
	if len(buckets) == 0 {
		return 0
	}
	first := int(h.s.options.Random() % uint64(len(buckets)))
	for k := 0; k < len(buckets) && freed < enough; k++ {
		freed += h.evictBucket(sh, db, i, buckets[(first+k)%len(buckets)])
	}
	return freed
}

// bucketsOf returns where the buckets of a slot's table begin. It returns nil if no keys of the
// slot may leave memory now.
func (h *housekeeper) bucketsOf(sh *shard, db, i int) []uint32 {
	if db == h.s.options.Databases && (h.s.guard.Since() != 0 || h.s.hooks.KeepsSystem()) {
		// Each write of a deadline may need the notes, and each expiry may need the data that the
		// hooks keep.
		return nil
	}
	if !sh.lockPassingGlobal() {
		return nil
	}
	defer sh.mu.Unlock()
	if sl := evictableSlot(sh.mu.parts[db], i); sl != nil {
		return sl.table.Starts()
	}
	return nil
}

// evictableSlot returns slot i of a part if keys of it may leave memory, and nil otherwise.
func evictableSlot(p *part, i int) *slot {
	if p == nil || p.groups[i/groupSlots] == nil {
		return nil
	}
	sl := p.slotAt(i)
	if sl.inflight || sl.awaiting || sl.table.Len() == 0 {
		return nil
	}
	return sl
}

// evictStep is how many keys leave memory each time a shard is locked.
const evictStep = 64

// evictBucket removes keys of the bucket of a hash prefix from memory.
func (h *housekeeper) evictBucket(sh *shard, db, i int, prefix uint32) (freed int64) {
	var upTo uint32 // the most recent access order of those that leave, set by the first step
	for first, more := true, true; more; first = false {
		var n int64
		n, upTo, more = h.evictSome(sh, db, i, prefix, first, upTo)
		freed += n
		h.s.diskDeadlines.trim()
	}
	return freed
}

// evictSome is a step of evictBucket, and returns whether more keys should leave. Each time it
// locks the shard it examines one bucket and removes evictStep keys from memory at most.
func (h *housekeeper) evictSome(sh *shard, db, i int, prefix uint32, first bool,
	upTo uint32) (freed int64, limit uint32, more bool) {
	s := h.s
	if !sh.lockPassingGlobal() {
		return 0, 0, false
	}
	defer sh.mu.Unlock()
	p := sh.mu.parts[db]
	sl := evictableSlot(p, i)
	if sl == nil {
		return 0, 0, false
	}
	now := s.now()
	var clean []cell
	var oldest, newest uint32 = 1<<32 - 1, 0
	sl.table.WalkBucket(prefix, func(c *cell) {
		if !p.evictable(*c, now) || !h.tight.Load() && p.keepsKey(*c) {
			return
		}
		a := s.accessOrder(p.item(*c).Access(), now)
		oldest, newest = min(oldest, a), max(newest, a)
		if first || a <= upTo {
			clean = append(clean, *c)
		}
	})
	if first {
		upTo = oldest + (newest-oldest)/2
	}
	gone := 0
	for _, c := range clean {
		if s.accessOrder(p.item(c).Access(), now) > upTo {
			continue
		}
		if gone++; gone > evictStep {
			return freed, upTo, true
		}
		freed += h.evictCell(p, sl, c)
	}
	if sl.table.Len() == 0 {
		sl.table = hashtable.Table{}
	}
	return freed, upTo, false
}

// evictable reports whether a cell may leave memory: the data file has its state. A due key stays,
// as the reaper would only load it again. A pinned value stays too, since the index does not have
// its deadline.
func (p *part) evictable(c cell, now int64) bool {
	if c.Is(hashtable.Dirty | hashtable.Tomb) {
		return !c.Is(hashtable.Dirty)
	}
	if o := p.objectOf(c); o != nil && o.pinned() {
		return false
	}
	due := p.due(c)
	return *p.flags(c)&flagDisk != 0 && (due == 0 || due > now)
}

func (h *housekeeper) evictCell(p *part, sl *slot, c cell) (freed int64) {
	s := h.s
	freed = int64(p.size(c)) + cellBytes
	name := p.name(c)
	k := s.keyIn(sl, name)
	if !c.Is(hashtable.Tomb) {
		if !sl.partial {
			sl.partial = true
			// Before diskDeadlines gets the key: diskDeadlines drops all when no slot is partial.
			s.partials.Add(1)
		}
		d := p.due(c)
		p.toDisk(k, d)
		if d != 0 {
			p.setIndex(p.id(sl, c), d, 0)
			on := format.DiskKey(nil, p.space, k)
			s.diskDeadlines.leave(d, on)
			if own := p.deadline(c); own != 0 && own != d {
				s.later.note(own, on)
			}
			freed += indexBytes
		}
		s.stats.Evictions.Add(1)
	} else {
		p.toDisk(k, 0)
	}
	p.drop(sl, p.find(sl, k))
	return freed
}
