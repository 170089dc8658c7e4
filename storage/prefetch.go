package storage

import (
	"math/bits"

	"keyp/storage/hashtable"
	"keyp/storage/object"
)

// PrefetchKeys is the largest number of keys that Prefetch takes at once.
const PrefetchKeys = 16

const cacheLine = 64

// probe is Prefetch's state of a key after a step.
type probe struct {
	p    *part
	sl   *slot
	hash uint64
	o    *Object // the object that was found, if any
}

// Prefetch reads the memory that look-ups of these names in a database will read, step by step for
// all of them together. With millions of keys each step of a look-up waits for memory; here the
// processor waits for all keys at once. It changes nothing, ignores names beyond PrefetchKeys, and
// skips shards that others have locked.
func (s *Store) Prefetch(db int, names [][]byte) {
	var keys [PrefetchKeys]Key
	names = names[:min(len(names), PrefetchKeys)]
	wanted := uint64(0)
	for i, name := range names {
		keys[i] = s.Key(db, name)
		wanted |= 1 << s.shardOf(keys[i].Slot)
	}
	locked := uint64(0)
	for m := wanted; m != 0; m &= m - 1 {
		if i := bits.TrailingZeros64(m); s.shards[i].mu.tryLock() {
			locked |= 1 << i
		}
	}
	s.prefetchKeys(keys[:len(names)], locked)
	for m := locked; m != 0; m &= m - 1 {
		s.shards[bits.TrailingZeros64(m)].mu.Unlock()
	}
}

// Prefetch is Store.Prefetch for keys whose shards the transaction has locked.
func (t *Txn) Prefetch(keys []Key) {
	if !t.Offloaded() {
		t.s.prefetchKeys(keys[:min(len(keys), PrefetchKeys)], t.mask)
	}
}

// prefetchKeys does the reads of looking up keys in locked shards. It returns a sum so that the
// compiler keeps the reads.
//
//go:noinline
func (s *Store) prefetchKeys(keys []Key, locked uint64) (sum uint64) {
	var places [PrefetchKeys]probe
	n := 0
	for i := range keys {
		shard := s.shardOf(keys[i].Slot)
		if locked>>shard&1 == 0 {
			continue
		}
		if p := s.shards[shard].mu.parts[keys[i].DB]; p != nil && p.hasSlot(keys[i]) {
			places[n] = probe{p, p.slot(keys[i]), keys[i].Hash, nil}
			n++
		}
	}
	for i := range places[:n] {
		sl := places[i].sl
		sum += uint64(sl.table.Len()) + sl.lastDelete // both lines of the slot
	}
	for i := range places[:n] {
		sum += places[i].sl.table.Prefetch(places[i].hash)
	}
	for i := range places[:n] {
		at := &places[i]
		c, _ := at.sl.table.Find(at.hash, func(cell) bool { return true })
		if c != nil {
			sum += at.p.prefetchCell(*c)
			at.o = at.p.objectOf(*c)
		}
	}
	for i := range places[:n] {
		if o := places[i].o; o != nil && len(o.key) > 0 {
			sum += uint64(o.key[0])
			if l, ok := o.val.(*object.Limit); ok {
				sum += uint64(l.Prefetch())
			}
		}
	}
	return sum
}

// prefetchCell reads the part of a cell's value that most uses read.
func (p *part) prefetchCell(c cell) (sum uint64) {
	if c.Is(hashtable.Obj) {
		if o := p.objects.at(c.Ref()); o != nil {
			sum = uint64(o.access)
		}
		return sum
	}
	b := p.slabs.At(c.Ref())
	for from := 0; from < min(len(b), 4*cacheLine); from += cacheLine {
		sum += uint64(b[from])
	}
	return sum
}
