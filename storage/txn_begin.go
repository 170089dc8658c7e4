package storage

import (
	"errors"
	"math/bits"
)

// Begin starts a transaction: it locks the shards of keys, in the order of their numbers, and reads
// the clock. It returns false, with nothing locked, if a transaction over the whole keyspace has
// one of the shards (BlockedByGlobal). It also returns false if a key may be only on disk, or has
// so many due elements that removing them takes long. Then the caller calls Store.Load and tries
// again.
func (s *Store) Begin(t *Txn, keys []Key) bool {
	if !s.lockKeys(t, keys) {
		return false
	}
	// The slots of these keys become partial, or whole, only while their shards are locked.
	if s.partials.Load() == 0 && !s.anyDue(t) {
		return true
	}
	for i := range keys {
		if i%PrefetchKeys == 0 && len(keys) > PrefetchKeys {
			t.Prefetch(keys[i:])
		}
		if !s.resident(keys[i]) || s.overdue(keys[i], t.now) {
			s.unlock(t)
			return false
		}
	}
	return true
}

// anyDue reports whether anything may be due in the shards that t has locked.
func (s *Store) anyDue(t *Txn) bool {
	for m := t.mask; m != 0; m &= m - 1 {
		if s.shards[bits.TrailingZeros64(m)].nextDue.Load() <= t.now {
			return true
		}
	}
	return false
}

// BeginLoading is Begin for keys that leave memory again and again before their command can run. It
// reads keys that are only on disk while the shards are locked, and others wait. It returns false,
// with nothing locked, if the global transaction has one of the shards (BlockedByGlobal), or with
// an error. The error is that of Load.
func (s *Store) BeginLoading(t *Txn, keys []Key) (bool, error) {
	if !s.lockKeys(t, keys) {
		return false, nil
	}
	for i := range keys {
		if err := t.Load(keys[i]); err != nil {
			s.unlock(t)
			return false, err
		}
	}
	return true, nil
}

// BeginBeside is BeginLoading for a task outside of the loop: it waits for the end of the global
// transaction. With an error nothing is locked.
func (s *Store) BeginBeside(t *Txn, keys []Key) error {
	s.lock(t, s.maskOf(keys))
	t.takeInstant()
	for i := range keys {
		if err := t.Load(keys[i]); err != nil {
			s.unlock(t)
			return err
		}
	}
	return nil
}

// LockBehind locks the shards of keys for background work, after the commands that want them, and
// takes the instant. It waits for the global transaction. The keys may be on disk only.
func (s *Store) LockBehind(t *Txn, keys ...Key) {
	mask := s.maskOf(keys)
	for rest := mask; rest != 0; rest &= rest - 1 {
		s.shards[bits.TrailingZeros64(rest)].mu.yield()
	}
	s.lock(t, mask)
	t.takeInstant()
}

// BeginBehind is LockBehind with the first key in memory. It loads that key while no shard is
// locked, if it can. With an error, which is that of Load, nothing is locked.
func (s *Store) BeginBehind(t *Txn, keys ...Key) error {
	for tries := 0; ; tries++ {
		s.LockBehind(t, keys...)
		if s.resident(keys[0]) {
			return nil
		}
		if tries == loadTries {
			err := t.Load(keys[0])
			if err != nil {
				s.unlock(t)
			}
			return err
		}
		s.unlock(t)
		if err := s.loads.loadKey(keys[0]); err != nil && !errors.Is(err, errBusy) {
			s.loads.failed(keys[0], err)
			return err
		}
	}
}

// Wanted reports whether a command waits for a shard that the transaction has locked.
func (t *Txn) Wanted() bool {
	for rest := t.mask; rest != 0; rest &= rest - 1 {
		if t.s.shards[bits.TrailingZeros64(rest)].mu.wanted() {
			return true
		}
	}
	return false
}

// BeginAll locks the whole keyspace.
func (s *Store) BeginAll(t *Txn) {
	s.lock(t, 1<<len(s.shards)-1)
	t.takeInstant()
}

// Shards returns the number of shards of the store.
func (s *Store) Shards() int { return len(s.shards) }

// ShardOf returns the number of a key's shard.
func (s *Store) ShardOf(k Key) int { return s.shardOf(k.Slot) }

func (s *Store) shardOf(slot uint16) int { return int(slot) / s.slotsPerShard }

// maskOf returns the shards of keys as a set of bits.
func (s *Store) maskOf(keys []Key) (mask uint64) {
	for i := range keys {
		mask |= 1 << s.shardOf(keys[i].Slot)
	}
	return mask
}

// lockKeys locks the shards of keys and takes the instant. It returns false, with nothing locked,
// if the global transaction has one of them.
func (s *Store) lockKeys(t *Txn, keys []Key) bool {
	mask := s.maskOf(keys)
	t.blocked = false
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		if !s.shards[i].lockUnlessGlobal() {
			t.mask = mask & (1<<i - 1)
			s.unlock(t)
			t.blocked = true
			return false
		}
	}
	t.mask = mask
	t.takeInstant()
	return true
}

// lock locks shards, and waits for those of the global transaction: see globaltxn.go for the gate.
func (s *Store) lock(t *Txn, mask uint64) {
	if mask&(mask-1) != 0 {
		s.global.gate.Lock()
		defer s.global.gate.Unlock()
	}
	s.lockShards(t, mask)
}

func (s *Store) lockShards(t *Txn, mask uint64) {
	t.mask = mask
	for m := mask; m != 0; m &= m - 1 {
		s.shards[bits.TrailingZeros64(m)].mu.lockFirst()
	}
}

// lockBehind locks one shard for a background transaction, after the commands that want it. If the
// global transaction has the shard and wait is false, it returns false.
func (s *Store) lockBehind(t *Txn, sh *shard, wait bool) bool {
	if wait {
		sh.mu.Lock()
	} else if !sh.lockPassingGlobal() {
		return false
	}
	t.mask = 1 << sh.num
	return true
}

func (s *Store) unlock(t *Txn) {
	if t.global {
		t.endGlobal()
		return
	}
	for m := t.mask; m != 0; m &= m - 1 {
		s.shards[bits.TrailingZeros64(m)].mu.Unlock()
	}
	t.mask = 0
}

// resident reports whether memory has a key's value, or knows that it does not exist.
func (s *Store) resident(k Key) bool {
	if s.partials.Load() == 0 {
		// Its slot becomes partial, or whole, only while the shard is locked.
		return true
	}
	p := s.shards[s.shardOf(k.Slot)].mu.parts[k.DB]
	if p == nil {
		return true
	}
	sl := p.slot(k)
	return !sl.partial || p.find(sl, k) != nil
}
