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

	"keyp/internal/histogram"
	"keyp/storage/format"
	"keyp/storage/object"
	"keyp/ttl"
)

// The reaper removes keys at their deadline: those in memory from the shards' indexes,
// those that are only on disk from the window.

// source is a shard as the reaper sees it.
type source struct {
	sh    *shard
	t     *Txn
	names []byte // records of the keys removed last, for those that must be named
}

// NextDeadline is at most the shard's earliest deadline.
func (r *source) NextDeadline() (int64, bool) {
	due := r.sh.nextDue.Load()
	return due, due != never
}

// ReapDue removes keys and elements due by now for about budget, or until a command wants the
// shard. In the log of a server that is alone most keys have no record of their own: one record
// states that everything of the shard that was due by an instant is gone. It must not cover a key
// that is still counted, even if only on disk, since replay would remove that key and leave the
// counts. While there is such a key, the keys due after it that are removed get records by name. At
// a member of a group all keys have such records, since replay would remove what is in memory, and
// no two members have the same keys there. ReapDue skips a shard of the global transaction.
func (r *source) ReapDue(now int64, budget time.Duration) (n int, more bool) {
	return r.reapDue(now, budget, false)
}

// reapDue is ReapDue; wait: wait for the end of the global transaction.
func (r *source) reapDue(now int64, budget time.Duration, wait bool) (n int, more bool) {
	s := r.sh.store
	if !s.lockBehind(r.t, r.sh, wait) {
		return 0, false
	}
	if s.Follower() {
		s.unlock(r.t)
		return 0, false
	}
	now = s.notLater(now)
	r.t.now = now
	began := s.clock.Mono()
	through, last := s.window.expiredThrough(now), int64(0)
	r.names = r.names[:0]
	for looks := 0; looks < s.bounds.reapLooks || s.clock.Mono()-began < budget && !r.sh.mu.wanted(); looks++ {
		if looks >= s.bounds.reapLooks {
			s.hooks.ending(r.t) // that is part of the budget
		}
		p, db, due, ok := r.sh.firstDue(now)
		if !ok {
			break
		}
		if looks >= s.bounds.reapLooks {
			looks = 0
		}
		if looks == 0 {
			p.prefetch(s.bounds.reapLooks)
		}
		if p.index.MoveFirst() { // it has a later deadline
			continue
		}
		sl, c, k := p.byID(due.ID)
		k.DB = db
		switch d := p.deadline(*c); {
		case d == due.Deadline && s.options.Member:
			r.t.stateKey(format.RecDelete, p.space, k.Name)
			r.t.expire(p, sl, c, k)
			n++
		case d == due.Deadline:
			if d != last && last <= through {
				r.names = r.names[:0]
			}
			last = d
			r.names = format.AppendBytes(format.AppendRecord(r.names, format.RecDelete, uint64(p.space)), k.Name)
			r.t.expire(p, sl, c, k)
			n++
		case d != 0 && d <= now && s.hooks.wants(db): // elements that were due after it are not told
			r.t.keyRecord(format.RecDelete, p, k.Name)
			r.t.expire(p, sl, c, k)
			n++
		default:
			n += r.t.shed(p, sl, c, k, r.t.shedStep(k, p.objectOf(*c), shedStep))
			looks = s.bounds.reapLooks // that took as long as a few keys
		}
		if len(r.t.reports.entries) >= reportStep {
			looks = s.bounds.reapLooks // as did that
		}
	}
	_, _, next, more := r.sh.firstDue(now)
	if more {
		through = min(through, next.Deadline-1)
	}
	if through < last {
		r.t.buf = append(r.t.buf, r.names...)
		r.t.logged = 0
	}
	if n > 0 && !s.options.Member {
		r.sh.logReaped(r.t, through)
	}
	s.hooks.ending(r.t) // before others see that nothing is due
	r.sh.setNextDue()
	r.t.End()
	s.hooks.removed()
	if n > 0 && !more {
		s.log.CommitAsync()
	}
	return n, more
}

// prefetch reads the next due keys, so that the processor waits for all of them at once; it returns
// a sum so that the compiler keeps the reads.
//
//go:noinline
func (p *part) prefetch(keys int) (sum uint64) {
	p.index.Ahead(func(e ttl.Entry) bool {
		sum += p.prefetchCell(newCell(0, uint32(e.ID), cell(e.ID)&cellObj))
		keys--
		return keys > 0
	})
	return sum
}

// reapLooks is how many keys the reaper removes between two readings of the clock.
const reapLooks = 16

// shedStep is how many elements of a key the reaper removes between two readings of the clock.
const shedStep = 64

// reportStep is how many bytes the hooks note between two readings of the clock, and a little more.
const reportStep = 64 << 10

// firstDue is the earliest entry of all databases that is due.
func (sh *shard) firstDue(now int64) (p *part, db int, due ttl.Entry, ok bool) {
	for i, q := range sh.mu.parts {
		if q == nil {
			continue
		}
		if e, have := q.index.First(); have && e.Deadline <= now && (!ok || e.Deadline < due.Deadline) {
			p, db, due, ok = q, i, e, true
		}
	}
	return p, db, due, ok
}

func (sh *shard) setNextDue() {
	next := int64(never)
	for _, p := range sh.mu.parts {
		if p != nil {
			if d, ok := p.index.Next(); ok {
				next = min(next, d)
			}
		}
	}
	sh.nextDue.Store(next)
}

// notLater returns an earlier reading of the clock, or the present instant if that is earlier: the
// clock may have stepped back since, and a deadline between the two may have been set. The caller
// has the shard locked, so time cannot go back meanwhile.
func (s *Store) notLater(now int64) int64 { return min(now, s.now()) }

func (s *Store) startReaper() {
	var sources []ttl.Source
	for _, sh := range s.shards {
		sources = append(sources, &source{sh: sh, t: s.NewTxn()})
	}
	sources = append(sources, &s.window)
	s.reaper = ttl.NewReaper(s.clock, sources, ttl.ReaperOptions{
		OnJump: s.clockJumped,
		Ahead:  s.guard.ahead.Load,
		OnBatch: func(took time.Duration) {
			if fn := s.onReap.Load(); fn != nil {
				(*fn)(took)
			}
		},
	})
}

// OnReap sets a function that the reaper's goroutine calls with the duration of each batch.
func (s *Store) OnReap(fn func(took time.Duration)) { s.onReap.Store(&fn) }

// awaitReapDelay waits for ReapDelay.
func (s *Store) awaitReapDelay() {
	began := s.clock.Mono()
	for s.quit.Err() == nil {
		left := s.options.ReapDelay - (s.clock.Mono() - began)
		if left <= 0 {
			return
		}
		reached, stop := s.clock.Until(s.clock.Now() + max(1, left.Milliseconds()))
		select {
		case <-reached:
		case <-s.quit.Done():
		}
		stop()
	}
}

// wake wakes the reaper for a deadline that may be earlier than what it sleeps for.
func (s *Store) wake(deadline int64) {
	if deadline != 0 && s.reaper != nil {
		s.reaper.Wake(deadline)
	}
}

// SetActiveExpire turns the reaper off and on (DEBUG SET-ACTIVE-EXPIRE). Keys expire for readers in
// any case.
func (s *Store) SetActiveExpire(on bool) {
	s.passive.Store(!on)
	s.pauseReaper()
}

// Reap removes everything that is due, and returns how much that was.
func (s *Store) Reap() (n int) {
	now := s.now()
	for more := true; more; { // first, since it loads keys
		var k int
		k, more = s.window.reapDue(now, time.Millisecond, true)
		n += k
	}
	for _, sh := range s.shards {
		src := &source{sh: sh, t: s.NewTxn()}
		for more := true; more; {
			var k int
			k, more = src.reapDue(now, time.Millisecond, true)
			n += k
		}
	}
	return n
}

// stepTolerance is the longest backward step of the wall clock that the store just waits for, in
// ms.
const stepTolerance = 1000

// clockStepped handles a wall clock that went back. The store's time stands still until everything
// that was due at the newest instant is removed, so nothing that was seen expired returns; then it
// follows the clock again.
func (s *Store) clockStepped(wall, last int64) {
	if last-wall < stepTolerance || s.options.ReadOnly || s.Follower() || s.guard.goesOn() || !s.stepped.CompareAndSwap(false, true) {
		return
	}
	s.stats.ClockSteps.Add(1)
	s.options.Logger.Warn("the wall clock stepped back", "ms", last-wall)
	s.goBackground(s.stepBack)
}

// stepBackTries bounds how often stepBack removes due keys, since damaged ones may stay due.
const stepBackTries = 100

// stepBack removes all that is due, and then lets time follow the clock. Meanwhile keys come into
// memory and leave it, and the clock may step forward again, so it checks with all shards locked
// whether anything is left.
func (s *Store) stepBack() {
	t := s.NewTxn()
	for tries := 1; ; tries++ {
		s.Reap()
		s.BeginAll(t)
		if s.quit.Err() != nil { // time stands still to the end
			t.End()
			return
		}
		if s.Follower() { // as leader it will begin again
			s.stepped.Store(false)
			t.End()
			return
		}
		if s.reapedAll(t.now) || tries == stepBackTries {
			break
		}
		t.End()
	}
	for _, sh := range s.shards { // in the log before anything new is set
		if !s.options.Member {
			t.record(format.RecReaped, uint64(sh.num), uint64(sh.expiredThrough(t.now)))
		}
		sh.mu.logged = 0
	}
	s.timeFollows(t, s.reading())
}

// reapedAll reports whether nothing is due by now; all shards are locked.
func (s *Store) reapedAll(now int64) bool {
	for _, sh := range s.shards {
		if sh.expiredThrough(now) < now {
			return false
		}
	}
	return true
}

// expiredThrough is the latest instant, up to now, by which nothing of the shard is due. The shard
// is locked.
func (sh *shard) expiredThrough(now int64) int64 {
	return min(sh.store.window.expiredThrough(now), sh.nextDue.Load()-1)
}

// clockJumped notes a jump that the reaper saw. A step back, and one forward by much, is handled by
// the first that asks for the time.
func (s *Store) clockJumped(ms int64) {
	if ms > 0 {
		s.stats.ClockSteps.Add(1)
		s.options.Logger.Warn("the wall clock stepped forward", "ms", ms)
	}
	s.now()
}

// observeLateness counts how late a key was removed, unless it became due while the store was
// closed or the reaper waited for ReapDelay.
func (s *Store) observeLateness(deadline, now int64) {
	if deadline >= s.reapFrom {
		s.lateness.Observe(now - deadline)
	}
	s.observeLate(s.late.keys, deadline)
}

// observeLate counts, to the microsecond, how late something is removed that was due at deadline.
func (s *Store) observeLate(h *histogram.Histogram, deadline int64) {
	if deadline >= s.reapFrom {
		h.Observe(s.Micros() - deadline*1000)
	}
}

// window contains the deadlines of keys that are only on disk, up to an end. It is a view on the
// ttl bucket that moves forward with time.
type window struct {
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
		idx *ttl.Window
		// end is the first place of the bucket that idx does not show. It may be in the middle of
		// keys with one deadline: they may be more than memory has room for.
		end       ttl.WindowEntry
		going     int64 // deadline of the key that is being removed, 0 for none
		refilling bool
		evicted   []ttl.WindowEntry // while refilling: from end on
	}

	// Written while mu is locked; Next of each may be read without it.
	next atomic.Int64
	// largeLoads are large values that are being loaded, since elements of them are due.
	largeLoads *ttl.Window
	loading    sync.WaitGroup
}

// windowSize is how many deadlines are read at once; the window is cut when evictions
// make it twice as large.
const windowSize = 64 << 10

func (w *window) init(s *Store) {
	w.s, w.turn.t, w.mu.idx, w.turn.reported = s, s.NewTxn(), ttl.NewWindow(), map[string]bool{}
	w.largeLoads = ttl.NewWindow()
	w.next.Store(0) // the first look reads the bucket
}

// NextDeadline is when the window has to be looked at: its earliest deadline or its end.
func (w *window) NextDeadline() (int64, bool) {
	if w.s.partials.Load() == 0 {
		return 0, false
	}
	return w.next.Load(), true
}

// ReapDue removes keys that are due and only on disk. Keys with due elements it loads into memory,
// where the shard's reaper removes the elements.
func (w *window) ReapDue(now int64, budget time.Duration) (n int, more bool) {
	return w.reapDue(now, budget, false)
}

// reapDue is ReapDue; wait: wait for loading large values.
func (w *window) reapDue(now int64, budget time.Duration, wait bool) (n int, more bool) {
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
		w.s.hooks.removed()
		if again && !wait {
			return n, false
		}
		looks++
	}
	return n, true
}

// pop removes and returns the earliest entry if it is due, or reports that the window's end is due.
func (w *window) pop(now int64) (due ttl.WindowEntry, ok, refill bool) {
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

func (w *window) setNext() {
	next := w.mu.end.Deadline
	if d, ok := w.mu.idx.Next(); ok {
		next = min(next, d)
	}
	if w.mu.going != 0 {
		next = min(next, w.mu.going)
	}
	w.next.Store(next)
}

// expiredThrough is the latest instant, up to now, by which no key is due that is only on disk. It
// is valid for shards that the caller has locked.
func (w *window) expiredThrough(now int64) int64 {
	if next, ok := w.NextDeadline(); ok {
		now = min(now, next-1)
	}
	if next, ok := w.largeLoads.Next(); ok { // read after going, from which keys move here
		now = min(now, next-1)
	}
	return now
}

// put adds an entry to the window, unless it is beyond the end: the bucket has those.
func (w *window) put(e ttl.WindowEntry) {
	if e.Before(w.mu.end) && !w.mu.idx.Has(e.ID, e.Deadline) {
		w.mu.idx.Set(e.ID, 0, e.Deadline)
	}
}

// expire removes one key, unless memory or the data file has another deadline for it by now: an
// entry stays in the window when its key changes. again: try again, since the key's slot was busy,
// or the global transaction has its shard and wait is false, or the clock has stepped back.
func (w *window) expire(due ttl.WindowEntry, now int64, wait bool) (gone, again bool) {
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
		err := s.file.view(func(tx *bolt.Tx) (err error) {
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
		if at.Deadline == 0 || at.Deadline > now || s.hooks.wantsValue(k, typ, at) {
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
		if k.DB = s.dbOf(space); s.hooks.wantsValue(k, typ, at) {
			s.unlock(w.turn.t) // it was not wanted before
			return false, true
		}
		if gone = w.retire(p, sl, k, at.Deadline, typ); gone {
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

// loadLarge loads a large value on another goroutine while the window goes on. Until that is done
// the key counts as due, so no record may state that its shard has nothing due.
func (w *window) loadLarge(due ttl.WindowEntry, space uint32, k Key) {
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
		w.s.hooks.removed()
	})
}

// loadInSpace loads a key of a keyspace, in whichever database that is by then. again: try again,
// since the key's slot was busy, or the global transaction has its shard.
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

// retire makes a key that only the data file has a tombstone.
func (w *window) retire(p *part, sl *slot, k Key, deadline int64, typ object.Type) bool {
	if !sl.partial || p.find(sl, k) != nil {
		return false
	}
	k.DB = w.s.dbOf(p.space)
	w.turn.t.keyRecord(format.RecDelete, p, k.Name)
	p.tombstone(sl, k)
	p.keys--
	p.expires--
	w.turn.t.counted(p)
	w.turn.t.gone = append(w.turn.t.gone, sl)
	w.turn.t.goneKey(k, typ, deadline, w.turn.t.now, Item{})
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

// refill reads the next stretch of the ttl bucket; false when it could not.
func (w *window) refill() bool {
	w.mu.Lock()
	from := w.mu.end
	w.mu.refilling = true
	w.mu.Unlock()

	entries, end, err := w.read(from)
	return w.join(from, entries, end, err)
}

// join adds the entries that were read from a place on; false with an error.
func (w *window) join(from ttl.WindowEntry, entries []ttl.WindowEntry, end ttl.WindowEntry, err error) bool {
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
// complete: at least a minute ahead where the bucket ends.
func (w *window) read(from ttl.WindowEntry) (entries []ttl.WindowEntry, end ttl.WindowEntry, err error) {
	const ahead = 60_000
	err = w.s.file.view(func(tx *bolt.Tx) error {
		err := w.entries(tx, format.TTLKey(nil, from.Deadline, []byte(from.ID)), func(e format.TTLEntry) error {
			entry := ttl.WindowEntry{Deadline: e.Due, ID: string(e.On)}
			if len(entries) >= w.s.bounds.windowSize {
				end = entry
				return errEnough
			}
			entries = append(entries, entry)
			return nil
		})
		if err != nil {
			if err == errEnough {
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
func (w *window) entries(tx *bolt.Tx, from []byte, fn func(format.TTLEntry) error) error {
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
	err := each(tx, format.BucketTTL, from, nil, visit)
	if errors.Is(err, ErrCorrupt) {
		err = each(tx, format.BucketTTL, from, w.report, visit)
	}
	return err
}

// report reports damage of the ttl bucket, once.
func (w *window) report(err error) {
	if text := err.Error(); !w.turn.reported[text] {
		w.turn.reported[text] = true
		w.s.stats.BadDeadlines.Add(1)
		w.s.options.Logger.Error("deadlines are damaged on disk and ignored; their keys expire, but may be counted until they are asked for", "error", err)
	}
}

// leave adds the deadline of a key that leaves memory; on is its name on disk.
func (w *window) leave(deadline int64, on []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := ttl.WindowEntry{Deadline: deadline, ID: string(on)}
	switch {
	case e.Before(w.mu.end):
		w.put(e)
		w.setNext()
	case w.mu.refilling:
		w.mu.evicted = append(w.mu.evicted, e)
	}
}

// trim cuts the window if evictions have made it too large. No shard is locked: that takes a while.
func (w *window) trim() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.idx.Len() > 2*w.s.bounds.windowSize {
		w.cut()
	}
}

// cut drops the later half of the window; the ttl bucket has it.
func (w *window) cut() {
	var keep []ttl.WindowEntry
	w.mu.idx.Walk(0, func(e ttl.WindowEntry) bool {
		if len(keep) == w.s.bounds.windowSize {
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
