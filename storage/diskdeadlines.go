package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/ttl"
)

// diskDeadlines contains the next deadlines of keys that are only on disk: the first entries of the
// bucket ttl, some 64k of them. The reaper removes keys by it, and later entries are read as time
// passes.
type diskDeadlines struct {
	// Constant once Open has returned.
	s *Store

	// turn is locked, before mu, while keys are reaped.
	turn struct {
		sync.Mutex
		t        *Txn
		reported map[string]bool // damage that was reported
	}
	mu struct {
		sync.Mutex
		idx *ttl.NamedIndex
		// end is the first place of the bucket that idx does not contain. It may be between keys
		// with the same deadline, because there may be more of them than memory has room for.
		end       ttl.NamedEntry
		going     int64 // deadline of the key that is being removed, 0 for none
		refilling bool
		evicted   []ttl.NamedEntry // while refilling: from end on
	}

	// Written while mu is locked; Next of each may be read without it.
	next atomic.Int64
	// largeLoads are large values that are being loaded, since elements of them are due.
	largeLoads *ttl.NamedIndex
	loading    sync.WaitGroup
}

// deadlinesAtOnce is how many deadlines are read at once; diskDeadlines is cut when evictions
// make it twice as large.
const deadlinesAtOnce = 64 << 10

func (w *diskDeadlines) init(s *Store) {
	w.s, w.turn.t, w.mu.idx, w.turn.reported = s, s.NewTxn(), ttl.NewNamedIndex(), map[string]bool{}
	w.largeLoads = ttl.NewNamedIndex()
	w.next.Store(0) // the first look reads the bucket
}

// NextDeadline returns the time of the next work for ReapDue, in Unix ms. That is the earliest
// deadline or the end of diskDeadlines. It returns false if no key is only on disk.
func (w *diskDeadlines) NextDeadline() (int64, bool) {
	if w.s.partials.Load() == 0 {
		return 0, false
	}
	return w.next.Load(), true
}

// ReapDue removes keys that are due and only on disk, and returns how many. It loads keys with due
// elements into memory, where the shard's reaper removes the elements.
func (w *diskDeadlines) ReapDue(now int64, budget time.Duration) (n int, more bool) {
	return w.reapDue(now, budget, false)
}

// reapDue is ReapDue; wait: wait for loading large values.
func (w *diskDeadlines) reapDue(now int64, budget time.Duration, wait bool) (n int, more bool) {
	w.turn.Lock()
	defer w.turn.Unlock()
	if wait {
		w.loading.Wait()
	}
	if w.s.Follower() {
		return 0, false
	}
	began := w.s.clock.Mono()
	defer func() {
		if n > 0 && !more {
			w.s.log.CommitAsync()
		}
	}()
	for looks := 0; looks == 0 || w.s.clock.Mono()-began < budget; {
		now = w.s.notLater(now)
		due, ok, refill := w.pop(now)
		if refill {
			if !w.refill() {
				return n, false
			}
			continue
		}
		if !ok {
			return n, false
		}
		gone, again := w.expire(due, now, wait)
		if gone {
			n++
		}
		w.mu.Lock()
		if again {
			w.put(due)
		}
		w.mu.going = 0
		w.setNext()
		w.mu.Unlock()
		w.s.hooks.Removed()
		if again && !wait {
			return n, false
		}
		looks++
	}
	return n, true
}

// pop removes and returns the earliest entry if it is due, or reports that its end is due.
func (w *diskDeadlines) pop(now int64) (due ttl.NamedEntry, ok, refill bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.s.partials.Load() == 0 {
		w.mu.idx.Clear()
		return due, false, false
	}
	if due, ok = w.mu.idx.PopDue(now); ok {
		w.mu.going = due.Deadline
	}
	refill = !ok && w.mu.end.Deadline <= now
	w.setNext()
	return due, ok, refill
}

func (w *diskDeadlines) setNext() {
	next := w.mu.end.Deadline
	if d, ok := w.mu.idx.Next(); ok {
		next = min(next, d)
	}
	if w.mu.going != 0 {
		next = min(next, w.mu.going)
	}
	w.next.Store(next)
}

// expiredThrough returns the latest instant up to now at which no key that is only on disk is due.
// It is valid for shards that the caller has locked.
func (w *diskDeadlines) expiredThrough(now int64) int64 {
	if next, ok := w.NextDeadline(); ok {
		now = min(now, next-1)
	}
	if next, ok := w.largeLoads.Next(); ok { // read after going, from which keys move here
		now = min(now, next-1)
	}
	return now
}

// put adds an entry to diskDeadlines, unless it is beyond the end: the bucket has those.
func (w *diskDeadlines) put(e ttl.NamedEntry) {
	if e.Before(w.mu.end) && !w.mu.idx.Has(e.ID, e.Deadline) {
		w.mu.idx.Set(e.ID, 0, e.Deadline)
	}
}

// expire removes one key, unless memory or the data file has another deadline for it by now: an
// entry stays in diskDeadlines when its key changes. again: try again, since the key's slot was
// busy, or the global transaction has its shard and wait is false, or the clock has stepped back.
func (w *diskDeadlines) expire(due ttl.NamedEntry, now int64, wait bool) (gone, again bool) {
	s := w.s
	on := []byte(due.ID)
	space, slot := binary.BigEndian.Uint32(on), binary.BigEndian.Uint16(on[4:])
	sh := s.shards[s.shardOf(slot)]
	for range loadTries {
		if !s.lockBehind(w.turn.t, sh, wait) {
			return false, true
		}
		p := s.partOf(space, sh)
		if p == nil {
			s.unlock(w.turn.t)
			return false, false
		}
		sl := p.slotAt(int(slot - p.first))
		epoch, db := sl.epoch, s.dbOf(space)
		s.unlock(w.turn.t)
		var k Key
		var at format.Times
		var typ object.Type
		current, inline := false, false
		err := s.file.View(func(tx *bolt.Tx) (err error) {
			im, err := format.ParseImage(on, tx.Bucket(format.BucketValues).Get(on))
			s.repairTimes(tx, on, &im)
			if current = err == nil && im.Due() == due.Deadline; current {
				at, inline, typ = im.Times, im.Inline, im.Type
				_, k, err = s.keyOnDisk(tx, on)
			}
			return err
		})
		if err != nil && !errors.Is(err, ErrCorrupt) {
			s.options.Logger.Error("a key that is due could not be read", "error", err)
			return false, false
		}
		if !current {
			return false, false
		}
		k.DB = db
		if at.Deadline == 0 || at.Deadline > now || s.hooks.WantsValue(k, typ, at) {
			if inline || wait {
				return false, s.loads.loadInSpace(space, k)
			}
			w.loadLarge(due, space, k)
			return false, false
		}
		if !s.lockBehind(w.turn.t, sh, wait) {
			return false, true
		}
		if s.Follower() {
			s.unlock(w.turn.t)
			return false, true
		}
		if sl.epoch != epoch || p.dead {
			s.unlock(w.turn.t)
			continue
		}
		if w.turn.t.now = s.notLater(now); at.Deadline > w.turn.t.now {
			s.unlock(w.turn.t)
			return false, true
		}
		if k.DB = s.dbOf(space); s.hooks.WantsValue(k, typ, at) {
			s.unlock(w.turn.t) // it was not wanted before
			return false, true
		}
		if gone = w.retire(p, sl, k, at, typ); gone {
			p.fromDisk(k, due.Deadline)
		}
		if at.Deadline != due.Deadline { // an element was due before
			s.later.drop(at.Deadline, on)
		}
		w.turn.t.End()
		return gone, false
	}
	return false, true
}

// loadLarge loads a large value on another goroutine while diskDeadlines goes on. Until that is
// done the key counts as due, so no record may say that nothing in its shard is due.
func (w *diskDeadlines) loadLarge(due ttl.NamedEntry, space uint32, k Key) {
	w.mu.Lock()
	w.largeLoads.Set(due.ID, 0, due.Deadline)
	w.mu.Unlock()
	w.loading.Add(1)
	w.s.goBackground(func() {
		defer w.loading.Done()
		again := w.s.loads.loadInSpace(space, k)
		w.mu.Lock()
		defer w.mu.Unlock()
		if again {
			w.put(due)
			w.setNext()
		}
		w.largeLoads.Set(due.ID, due.Deadline, 0)
		w.s.hooks.Removed()
	})
}

// loadInSpace loads a key of a keyspace, for the database that has the keyspace by then. again: try
// again, since the key's slot was busy, or the global transaction has its shard.
func (l *loads) loadInSpace(space uint32, k Key) (again bool) {
	s := l.s
	sh := s.shards[s.shardOf(k.Slot)]
	for range loadTries {
		if !sh.lockPassingGlobal() {
			return true
		}
		p := s.partOf(space, sh)
		known := p == nil || p.find(p.slot(k), k) != nil
		k.DB = s.dbOf(space)
		sh.mu.Unlock()
		if known {
			return false
		}
		if err := l.loadKey(k); err != nil && !errors.Is(err, errBusy) {
			l.failed(k, err)
			return false
		}
	}
	return true
}

// retire replaces a key that is only in the data file by a tombstone. It returns false if the key
// is in memory or its slot is not on disk.
func (w *diskDeadlines) retire(p *part, sl *slot, k Key, at format.Times, typ object.Type) bool {
	if !sl.partial || p.find(sl, k) != nil {
		return false
	}
	k.DB = w.s.dbOf(p.space)
	w.turn.t.keyRecord(format.RecDelete, p, k.Name)
	p.tombstone(sl, k)
	p.keys--
	p.expires--
	if at.First != 0 {
		p.timed--
	}
	w.turn.t.counted(p)
	w.turn.t.gone = append(w.turn.t.gone, sl)
	w.turn.t.goneKey(k, typ, at.Deadline, w.turn.t.now, Item{})
	return true
}

func (s *Store) dbOf(space uint32) int {
	for db, id := range s.spaces.ids {
		if id == space {
			return db
		}
	}
	return -1
}

// refill reads the next part of the ttl bucket. It returns false after an error.
func (w *diskDeadlines) refill() bool {
	w.mu.Lock()
	from := w.mu.end
	w.mu.refilling = true
	w.mu.Unlock()

	entries, end, err := w.read(from)
	return w.join(from, entries, end, err)
}

// join adds the entries that read has returned for a place. It returns false if err is not nil.
func (w *diskDeadlines) join(from ttl.NamedEntry, entries []ttl.NamedEntry, end ttl.NamedEntry,
	err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	evicted := w.mu.evicted
	w.mu.refilling, w.mu.evicted = false, nil
	if err != nil {
		w.s.options.Logger.Error("deadlines could not be read from the data file", "error", err)
		return false // a later call tries again
	}
	if w.mu.end != from { // it was cut meanwhile, so the entries do not follow its end
		return true
	}
	w.mu.end = end
	for _, e := range append(entries, evicted...) {
		w.put(e)
	}
	w.setNext()
	return true
}

// read returns the entries of the ttl bucket from a place on, and the place up to which they are
// complete. At the end of the bucket that place is at least a minute ahead.
func (w *diskDeadlines) read(from ttl.NamedEntry) (entries []ttl.NamedEntry, end ttl.NamedEntry,
	err error) {
	const ahead = 60_000
	err = w.s.file.View(func(tx *bolt.Tx) error {
		err := w.entries(tx, format.TTLKey(nil, from.Deadline, []byte(from.ID)),
			func(e format.TTLEntry) error {
				entry := ttl.NamedEntry{Deadline: e.Due, ID: string(e.On)}
				if len(entries) >= w.s.bounds.deadlinesAtOnce {
					end = entry
					return datafile.ErrEnough
				}
				entries = append(entries, entry)
				return nil
			})
		if err != nil {
			if err == datafile.ErrEnough {
				err = nil
			}
			return err
		}
		end.Deadline = max(w.s.now()+ahead, from.Deadline+1)
		if n := len(entries); n > 0 {
			end.Deadline = max(end.Deadline, entries[n-1].Deadline+1)
		}
		return nil
	})
	return entries, end, err
}

// entries visits the entries of the ttl bucket from a key on, in order. Damaged entries are
// reported once and skipped.
func (w *diskDeadlines) entries(tx *bolt.Tx, from []byte, fn func(format.TTLEntry) error) error {
	last := from
	visit := func(at, v []byte) error {
		if bytes.Compare(at, last) < 0 {
			return nil // it was visited
		}
		e, ok := format.ParseTTL(at, v)
		if !ok {
			w.report(fmt.Errorf("%w: entry %q", ErrCorrupt, at[:min(len(at), 64)]))
			return nil
		}
		last = append(append(last[:0:0], at...), 0)
		return fn(e)
	}
	err := datafile.Each(tx, format.BucketTTL, from, nil, visit)
	if errors.Is(err, ErrCorrupt) {
		err = datafile.Each(tx, format.BucketTTL, from, w.report, visit)
	}
	return err
}

// report reports damage of the ttl bucket, once.
func (w *diskDeadlines) report(err error) {
	if text := err.Error(); !w.turn.reported[text] {
		w.turn.reported[text] = true
		w.s.stats.BadDeadlines.Add(1)
		w.s.options.Logger.Error("deadlines are damaged on disk and ignored; their keys expire, but may be counted until they are asked for",
			"error", err)
	}
}

// leave adds the deadline of a key that leaves memory; on is its name on disk.
func (w *diskDeadlines) leave(deadline int64, on []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := ttl.NamedEntry{Deadline: deadline, ID: string(on)}
	switch {
	case e.Before(w.mu.end):
		w.put(e)
		w.setNext()
	case w.mu.refilling:
		w.mu.evicted = append(w.mu.evicted, e)
	}
}

// trim cuts diskDeadlines if evictions have made it too large. No shard is locked, since a cut
// takes a while.
func (w *diskDeadlines) trim() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.idx.Len() > 2*w.s.bounds.deadlinesAtOnce {
		w.cut()
	}
}

// cut drops the later half of diskDeadlines; the ttl bucket has it.
func (w *diskDeadlines) cut() {
	var keep []ttl.NamedEntry
	w.mu.idx.Walk(0, func(e ttl.NamedEntry) bool {
		if len(keep) == w.s.bounds.deadlinesAtOnce {
			w.mu.end = e
			return false
		}
		keep = append(keep, e)
		return true
	})
	w.mu.idx.Clear()
	for _, e := range keep {
		w.mu.idx.Set(e.ID, 0, e.Deadline)
	}
	w.setNext()
}
