package storage

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"keyp/storage/hashtable"
)

// A script does not know beforehand which keys it will use, so its transaction is global: it begins
// with the whole keyspace locked (BeginGlobal). If it takes long it shares the keyspace: it unlocks
// the shards that it has not used (Share), and later locks the shards of further keys before it
// uses them (Use). Shards that it has used stay locked until it ends. That is two-phase locking. In
// a shard that it has not used yet, other transactions run before it. In all other shards they run
// after it.
//
// There is no deadlock, although the global transaction locks shards out of their order:
//
//   - There is one global transaction at a time. It holds a mutex, the gate (globalTxn.gate), from
//     its beginning to its end.
//   - Another transaction that needs several shards either holds the gate while it locks them
//     (Store.lock), or unlocks all of them when it meets a shard of the global transaction (Begin).
//   - A transaction that locks a single shard holds no other one while it waits.
//
// The event loop must never wait for a global transaction. So the global transaction first
// announces a shard that it wants (globalTxn.announced), and Begin does not wait for a shard that
// is announced. Those that already waited for the shard get it before the global transaction does
// (shardLock.lockAnnounced).
//
// The transaction's instant is fixed, as in any other. But others may have seen that a key expired
// while the transaction did not have its shard locked. That key must be gone for the transaction,
// too. So in shards that were locked late, everything is due that was due when they were locked,
// except the transaction's own writes (Txn.instant).

// globalTxn is the part of the global transaction that others see.
type globalTxn struct {
	// gate is locked by the global transaction from begin to end, and by others
	// while they lock several shards. It guards no field.
	gate sync.Mutex
	// announced contains a bit for each shard that the global transaction has locked or is about to
	// lock. Only that transaction writes it.
	announced atomic.Uint64
}

// has reports whether the global transaction has announced a shard.
func (l *globalTxn) has(sh *shard) bool { return l.announced.Load()>>sh.num&1 != 0 }

// sharing is the part of a Txn that is for global transactions.
type sharing struct {
	// turn guards the whole transaction if it is global. Its goroutine has turn locked, except
	// between Yield and Resume, when Share may lock it.
	turn   sync.Mutex
	global bool    // it began with BeginGlobal
	shared bool    // it has unlocked the shards that it had not used
	used   uint64  // shards that stay locked to its end
	late   uint64  // shards that it locked after it shared
	since  []int64 // when that was, by shard
	// blocked: the last Begin found a shard locked by the global transaction.
	blocked bool
}

// BeginGlobal locks the whole keyspace for a transaction that may share it later. keys are the keys
// that it is known to need. It waits for the end of a global transaction that is under way.
func (s *Store) BeginGlobal(t *Txn, keys []Key) {
	t.turn.Lock()
	s.global.gate.Lock()
	t.global, t.used = true, s.maskOf(keys)
	t.acquire(1<<len(s.shards) - 1)
	t.takeInstant()
}

// BeginApart begins a global transaction that needs only keys. Unlike BeginGlobal it locks only
// their shards, so the transaction shares the keyspace from the start.
func (s *Store) BeginApart(t *Txn, keys []Key) {
	t.turn.Lock()
	s.global.gate.Lock()
	t.global, t.shared, t.used = true, true, s.maskOf(keys)
	t.acquire(t.used)
	t.takeInstant()
}

// Yield lets a global transaction share its shards until Resume; it must not be used meanwhile. For
// other transactions it does nothing.
func (sh *sharing) Yield() {
	if sh.global {
		sh.turn.Unlock()
	}
}

// Resume ends the time that Yield began, and waits for a Share under way.
func (sh *sharing) Resume() {
	if sh.global {
		sh.turn.Lock()
	}
}

// Share waits until a global transaction yields, and then unlocks all shards that it has not used.
// Any goroutine may call it. For a transaction that has not begun, or has ended, it does nothing
// and returns false.
func (t *Txn) Share() bool {
	t.turn.Lock()
	defer t.turn.Unlock()
	if t.global && !t.shared {
		t.shared = true
		t.release(t.mask &^ t.used)
	}
	return t.shared
}

// Use makes sure that the shards of keys are locked until the transaction's end. Only a global
// transaction may have to wait for them.
func (t *Txn) Use(keys []Key) {
	if t.global {
		t.use(t.s.maskOf(keys))
	}
}

// UseAll makes sure, like Use, that all shards are locked until the transaction's end.
func (t *Txn) UseAll() {
	if t.global {
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

// acquire locks shards for the global transaction.
func (t *Txn) acquire(mask uint64) {
	t.s.global.announced.Or(mask)
	for m := mask; m != 0; m &= m - 1 {
		t.s.shards[bits.TrailingZeros64(m)].mu.lockAnnounced()
	}
	t.mask |= mask
}

// release unlocks shards of the global transaction.
func (t *Txn) release(mask uint64) {
	t.s.global.announced.And(^mask)
	t.mask &^= mask
	for m := mask; m != 0; m &= m - 1 {
		t.s.shards[bits.TrailingZeros64(m)].mu.Unlock()
	}
}

// endGlobal ends a transaction that BeginGlobal or BeginApart began.
func (t *Txn) endGlobal() {
	t.release(t.mask)
	t.global, t.shared, t.used, t.late = false, false, 0, 0
	t.s.global.gate.Unlock()
	t.turn.Unlock()
}

// BlockedByGlobal reports whether the last Begin failed because the global transaction has a shard
// of the keys: Begin can be called again when that transaction has ended.
func (sh *sharing) BlockedByGlobal() bool { return sh.blocked }

// instant returns the time that decides whether a key has expired for the transaction.
func (t *Txn) instant(p *part, c cell) int64 {
	if at := t.lockedAt(p.shard.num, t.now); at != t.now && !t.hasWritten(p, c) {
		return at
	}
	return t.now
}

// lockedAt returns the time that decides whether a key has expired. It is for keys of a shard that
// the transaction itself has not written.
func (sh *sharing) lockedAt(shard int, now int64) int64 {
	if sh.late>>shard&1 == 0 {
		return now
	}
	return sh.since[shard]
}

// isDue reports whether a deadline has come for the transaction.
func (t *Txn) isDue(p *part, c cell, due int64) bool {
	return due <= t.now ||
		t.late != 0 && due <= t.lockedAt(p.shard.num, t.now) && !t.hasWritten(p, c)
}

// hasWritten reports whether the transaction itself wrote a key's present value.
func (e *txnEffects) hasWritten(p *part, c cell) bool {
	const state = hashtable.Dirty | hashtable.Tomb
	for i := range e.wrote {
		if w := &e.wrote[i]; w.p == p && w.c&^state == c&^state {
			return true
		}
	}
	return false
}

// lockPassingGlobal locks the shard for background work. If the shard is the global transaction's,
// it returns false and locks nothing.
func (sh *shard) lockPassingGlobal() bool {
	sh.mu.checked.Add(1)
	defer sh.mu.checked.Add(-1)
	if sh.store.global.has(sh) {
		return false
	}
	sh.mu.Lock()
	return true
}

// lockUnlessGlobal locks the shard for a command, as lockFirst does. If the shard is the global
// transaction's, it returns false and locks nothing.
func (sh *shard) lockUnlessGlobal() bool {
	l := &sh.mu
	if l.tryLock() {
		return true
	}
	l.waiting.Add(1)
	defer l.waiting.Add(-1)
	for range lockSpins {
		if sh.store.global.has(sh) {
			return false
		}
		if l.tryLock() {
			return true
		}
	}
	if sh.store.global.has(sh) {
		return false
	}
	l.mu.Lock()
	return true
}

// lockAnnounced locks the shard for the global transaction, which has announced it. Those that
// checked before the announcement, and now wait, get the shard first, so that they never wait for
// the transaction.
func (l *shardLock) lockAnnounced() {
	for tries := 0; l.waiting.Load() > 0 || l.checked.Load() > 0; tries++ {
		if tries > lockSpins {
			time.Sleep(yieldPause)
		}
	}
	l.lockFirst()
}
