package storage

import (
	"math"
	"time"

	"keyp/internal/histogram"
	"keyp/storage/clockguard"
	"keyp/storage/format"
	"keyp/storage/hashtable"
	"keyp/ttl"
)

// The reaper removes keys at their deadline. It finds keys in memory by the shards' indexes, and
// keys that are only on disk by diskDeadlines.

// source is the ttl.Source of a shard: through it the reaper removes the keys of that shard.
type source struct {
	sh    *shard
	t     *Txn
	names []byte // records of the keys removed last, in case these must be named
}

// NextDeadline returns a time, in Unix ms, that is at most the shard's earliest deadline. It
// returns false if there is none.
func (r *source) NextDeadline() (int64, bool) {
	due := r.sh.nextDue.Load()
	return due, due != never
}

// ReapDue removes keys and elements due by now for about budget, or until a command wants the
// shard. It skips a shard that the global transaction has locked.
//
// On a server that is alone, most removed keys have no record of their own in the log. One record
// says that all keys and elements of the shard that were due by an instant are gone. That record
// must not cover a key that is still counted, even if it is only on disk: replay would remove the
// key and leave the counts. While there is such a key, each removed key that is due later gets a
// record with its name.
//
// At a member of a group each removed key gets a record with its name. When a record about an
// instant is replayed, the keys in memory are removed, and members have different keys in memory.
func (r *source) ReapDue(now int64, budget time.Duration) (n int, more bool) {
	return r.reapDue(now, budget, false)
}

// reapDue is ReapDue; with wait it waits for the end of the global transaction.
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
	through, last := s.diskDeadlines.expiredThrough(now), int64(0)
	r.names = r.names[:0]
	for looks := 0; looks < s.bounds.reapLooks ||
		s.clock.Mono()-began < budget && !r.sh.mu.wanted(); looks++ {
		if looks >= s.bounds.reapLooks {
			r.t.endNoted() // that is part of the budget
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
			r.names = format.AppendBytes(format.AppendRecord(r.names, format.RecDelete,
				uint64(p.space)), k.Name)
			r.t.expire(p, sl, c, k)
			n++
		case d != 0 && d <= now && s.hooks.Wants(db):
			// Elements that were due after it are not recorded.
			r.t.keyRecord(format.RecDelete, p, k.Name)
			r.t.expire(p, sl, c, k)
			n++
		default:
			n += r.t.shed(p, sl, c, k, r.t.shedStep(k, p.objectOf(*c), shedStep))
			looks = s.bounds.reapLooks // that took as long as a few keys
		}
		if noted(r.t) >= reportStep {
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
	r.t.endNoted() // before others see that nothing is due
	r.sh.setNextDue()
	r.t.End()
	s.hooks.Removed()
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
		sum += p.prefetchCell(hashtable.NewCell(0, uint32(e.ID), cell(e.ID)&hashtable.Obj))
		keys--
		return keys > 0
	})
	return sum
}

// reapLooks is how many keys the reaper removes between two readings of the clock.
const reapLooks = 16

// shedStep is how many elements of a key the reaper removes between two readings of the clock.
const shedStep = 64

// reportStep is about how many bytes the hooks note between two readings of the clock.
const reportStep = 64 << 10

// firstDue returns the earliest entry of all databases that is due.
func (sh *shard) firstDue(now int64) (p *part, db int, due ttl.Entry, ok bool) {
	for i, q := range sh.mu.parts {
		if q == nil {
			continue
		}
		if e, have := q.index.First(); have && e.Deadline <= now &&
			(!ok || e.Deadline < due.Deadline) {
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

// notLater returns an earlier reading of the clock, or the present instant if that is earlier. The
// clock may have stepped back since the reading, and a deadline between the two may have been set.
// The caller has the shard locked, so time cannot go back meanwhile.
func (s *Store) notLater(now int64) int64 { return min(now, s.now()) }

func (s *Store) startReaper() {
	var sources []ttl.Source
	for _, sh := range s.shards {
		sources = append(sources, &source{sh: sh, t: s.NewTxn()})
	}
	sources = append(sources, &s.diskDeadlines)
	s.reaper = ttl.NewReaper(s.clock, sources, ttl.ReaperOptions{
		OnJump: s.clockJumped,
		Ahead:  s.guard.Ahead,
		OnBatch: func(took time.Duration) {
			if fn := s.onReap.Load(); fn != nil {
				(*fn)(took)
			}
		},
	})
}

// FirstDue returns the earliest deadline, in Unix ms, of the keys and elements in memory or on
// disk; math.MaxInt64: there is none. Keys and elements that are being removed still count.
func (s *Store) FirstDue() int64 {
	first := int64(math.MaxInt64)
	if next, ok := s.diskDeadlines.NextDeadline(); ok {
		first = next
	}
	if next, ok := s.diskDeadlines.largeLoads.Next(); ok {
		// Read after diskDeadlines, from which keys move here.
		first = min(first, next)
	}
	for _, sh := range s.shards {
		first = min(first, sh.nextDue.Load())
	}
	return first
}

// CountsLateness reports whether lateness counts for a deadline. It does if the server was running
// when the deadline came.
func (s *Store) CountsLateness(deadline int64) bool { return deadline >= s.reapFrom }

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

// wake wakes the reaper for a deadline that may be earlier than the one for which it sleeps.
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

// Reap removes all keys and elements that are due, and returns how many.
func (s *Store) Reap() (n int) {
	now := s.now()
	for more := true; more; { // first, since it loads keys
		var k int
		k, more = s.diskDeadlines.reapDue(now, time.Millisecond, true)
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

// clockStepped handles a wall clock that went back. The store's time stands still until everything
// that was due at the newest instant is removed. So no key returns that somebody has seen expired.
// Then the store's time follows the clock again.
func (s *Store) clockStepped(wall, last int64) {
	if last-wall <= clockguard.StepTolerance || s.options.ReadOnly || s.Follower() ||
		s.guard.GoesOn() ||
		!s.stepped.CompareAndSwap(false, true) {
		return
	}
	s.stats.ClockSteps.Add(1)
	s.options.Logger.Warn("the wall clock stepped back", "ms", last-wall)
	s.goBackground(s.stepBack)
}

// stepBackTries bounds how often stepBack removes due keys, since damaged keys may stay due.
const stepBackTries = 100

// stepBack removes all that is due, and then lets time follow the clock. Meanwhile keys come into
// memory and leave it, and the clock may step forward again. So it checks with all shards locked
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

// expiredThrough returns the latest instant up to now at which nothing of the shard is due. The
// shard is locked.
func (sh *shard) expiredThrough(now int64) int64 {
	return min(sh.store.diskDeadlines.expiredThrough(now), sh.nextDue.Load()-1)
}

// clockJumped notes a jump that the reaper saw. The next reading of the store's time handles a step
// back, or a long step forward.
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
