package storage

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// A transaction that may take long, a script, does not know beforehand which keys it is going
// to touch, so it begins with the whole keyspace locked (BeginLong). When it does take long, it
// shares: it lets go of the shards of which it has used nothing (Share), and from then on locks
// those of the keys that it comes to before it uses them (Use). What it has used it keeps to its
// end. That is two-phase locking: others go before it in shards that it has not used yet, and
// behind it everywhere else.
//
// Nobody waits in a circle, although the transaction takes shards out of their order:
//
//   - There is one such transaction at a time, and it has the gate from begin to end. Whoever
//     else waits for a shard while it has another needs the gate for that (Store.lock); or it
//     gives up where it comes upon a shard that is the long transaction's (Begin).
//   - Everybody else has one shard at a time.
//
// The event loop must not wait for a long transaction at all. So that announces which shards it
// has or is about to lock (long.taken), and locks one only when nobody is left who has begun to
// wait for it before the announcement (shardLock.take). Begin looks at that before it waits.
//
// The transaction's instant stands still, as that of any other. But a key that expired while the
// transaction did not have its shard may have been seen to be gone, so it is gone: in shards that
// were locked late everything counts as due that was due when they were locked, but for what the
// transaction itself has written (Txn.instant).

// long is what there is of the long transaction.
type long struct {
	gate  sync.Mutex
	taken atomic.Uint64 // the shards that it has or is about to lock
}

// has says whether a shard is the long transaction's.
func (l *long) has(sh *shard) bool { return l.taken.Load()>>sh.num&1 != 0 }

// sharing is what a transaction notes that may share.
type sharing struct {
	turn   sync.Mutex // held while the transaction is in use: Rest lets go of it
	long   bool       // it began with BeginLong
	shared bool       // it has let go of what it had not used
	used   uint64     // shards that it needs to its end
	late   uint64     // shards that it locked after it shared
	since  []int64    // when that was, by shard
}

// BeginLong locks the whole keyspace for a transaction that may share it; keys are those that it
// is known to need. It waits until no other one is under way.
func (s *Store) BeginLong(t *Txn, keys []Key) {
	t.turn.Lock()
	s.long.gate.Lock()
	t.long, t.used = true, s.maskOf(keys)
	t.acquire(1<<len(s.shards) - 1)
	t.takeInstant()
}

// Rest says that the transaction, if it began with BeginLong, is not used until Resume, on
// whatever goroutine: it may share meanwhile.
func (t *Txn) Rest() {
	if t.long {
		t.turn.Unlock()
	}
}

// Resume ends what Rest began.
func (t *Txn) Resume() {
	if t.long {
		t.turn.Lock()
	}
}

// Share has a transaction that began with BeginLong let go of all shards that it has not used,
// as soon as it rests, and waits for that. Any goroutine may call it; nothing happens to a
// transaction that has ended.
func (t *Txn) Share() {
	t.turn.Lock()
	defer t.turn.Unlock()
	if t.long && !t.shared {
		t.shared = true
		t.release(t.mask &^ t.used)
	}
}

// Use makes sure that the transaction has the shards of keys, from now to its end. Only one that
// began with BeginLong may have to wait for that.
func (t *Txn) Use(keys []Key) {
	if t.long {
		t.use(t.s.maskOf(keys))
	}
}

// UseAll is Use for the whole keyspace.
func (t *Txn) UseAll() {
	if t.long {
		t.use(1<<len(t.s.shards) - 1)
	}
}

func (t *Txn) use(mask uint64) {
	t.used |= mask
	missing := mask &^ t.mask
	if missing == 0 {
		return
	}
	t.acquire(missing)
	if t.since == nil {
		t.since = make([]int64, len(t.s.shards))
	}
	t.late |= missing
	now := t.s.now()
	for m := missing; m != 0; m &= m - 1 {
		t.since[bits.TrailingZeros64(m)] = now
	}
}

// acquire locks shards for the long transaction.
func (t *Txn) acquire(mask uint64) {
	t.s.long.taken.Or(mask)
	for m := mask; m != 0; m &= m - 1 {
		t.s.shards[bits.TrailingZeros64(m)].mu.take()
	}
	t.mask |= mask
}

// release unlocks shards of the long transaction.
func (t *Txn) release(mask uint64) {
	t.s.long.taken.And(^mask)
	t.mask &^= mask
	for m := mask; m != 0; m &= m - 1 {
		t.s.shards[bits.TrailingZeros64(m)].mu.Unlock()
	}
}

// endLong ends what BeginLong began.
func (t *Txn) endLong() {
	t.release(t.mask)
	t.long, t.shared, t.used, t.late = false, false, 0, 0
	t.s.long.gate.Unlock()
	t.turn.Unlock()
}

// Taken says whether the last Begin failed because the long transaction has a shard of the keys:
// it is to be called again when that has ended.
func (t *Txn) Taken() bool { return t.met }

// instant is the time by which it is judged whether a key has expired.
func (t *Txn) instant(p *part, c cell) int64 {
	if at := t.lockedAt(p.shard.num); at != t.now && !t.hasWritten(p, c) {
		return at
	}
	return t.now
}

// lockedAt is the time by which that is judged in a shard of which the transaction has changed
// nothing.
func (t *Txn) lockedAt(shard int) int64 {
	if t.late>>shard&1 == 0 {
		return t.now
	}
	return t.since[shard]
}

// isDue says whether a key with something that is due then has to be looked at.
func (t *Txn) isDue(p *part, c cell, due int64) bool {
	return due <= t.now || t.late != 0 && due <= t.lockedAt(p.shard.num) && !t.hasWritten(p, c)
}

// hasWritten says whether the transaction itself made a key what it is.
func (t *Txn) hasWritten(p *part, c cell) bool {
	const state = cellDirty | cellTomb
	for i := range t.wrote {
		if w := &t.wrote[i]; w.p == p && w.c&^state == c&^state {
			return true
		}
	}
	return false
}

// lockSure locks the shard for work of the background that is to pass over one which the long
// transaction has: then it returns false.
func (sh *shard) lockSure() bool {
	sh.mu.sure.Add(1)
	defer sh.mu.sure.Add(-1)
	if sh.store.long.has(sh) {
		return false
	}
	sh.mu.Lock()
	return true
}

// lockUnlessTaken is lockFirst, unless the shard is the long transaction's: then it returns
// false.
func (sh *shard) lockUnlessTaken() bool {
	l := &sh.mu
	if l.tryLock() {
		return true
	}
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	for range lockSpins {
		if sh.store.long.has(sh) {
			return false
		}
		if l.tryLock() {
			return true
		}
	}
	if sh.store.long.has(sh) {
		return false
	}
	l.mu.Lock()
	return true
}

// take locks the shard for the long transaction, which has announced it. Those who found it not
// announced, and wait for it, come first: they must not come to wait for the transaction.
func (l *shardLock) take() {
	for tries := 0; l.waiting.Load() > 0 || l.sure.Load() > 0; tries++ {
		if tries > lockSpins {
			time.Sleep(politeRest)
		}
	}
	l.lockFirst()
}
