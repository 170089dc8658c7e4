package storage

import (
	"slices"

	"keyp/internal/histogram"
	"keyp/storage/hashtable"
	"keyp/storage/object"
)

// Readings for monitoring. They are taken while commands run, and never wait for a global
// transaction: for a shard that belongs to one, the last reading counts. They lock one shard at a
// time, after waiting commands, for some microseconds.

// Population is how many keys a database has, and how many of them have a deadline, as Count
// returns them. AverageTTL is the result of View.AverageTTL, in ms.
type Population struct {
	DB            int
	Keys, Expires int64
	AverageTTL    int64
}

// shardPopulation is a database's part of a shard.
type shardPopulation struct {
	db            int
	keys, expires int64
	sum, indexed  int64 // of the deadlines in memory, as the part has them
}

// Populations returns the databases that have keys, in their order.
func (s *Store) Populations() []Population {
	by := map[int]shardPopulation{}
	for _, sh := range s.shards {
		for _, p := range sh.population() {
			all := by[p.db]
			by[p.db] = shardPopulation{p.db, all.keys + p.keys, all.expires + p.expires,
				all.sum + p.sum, all.indexed + p.indexed}
		}
	}
	list := make([]Population, 0, len(by))
	age := s.now() - s.opened
	for db, p := range by {
		one := Population{DB: db, Keys: p.keys, Expires: p.expires}
		if p.indexed > 0 {
			one.AverageTTL = max(p.sum/p.indexed-age, 0)
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Population) int { return a.DB - b.DB })
	return list
}

func (sh *shard) population() []shardPopulation {
	if !sh.lockPassingGlobal() {
		if last := sh.counted.Load(); last != nil {
			return *last
		}
		return nil
	}
	defer sh.mu.Unlock()
	var list []shardPopulation
	for db, p := range sh.mu.parts[:sh.store.options.Databases] {
		if p != nil && p.keys > 0 {
			list = append(list, shardPopulation{db, p.keys, p.expires, p.sum, int64(p.index.Len())})
		}
	}
	sh.counted.Store(&list)
	return list
}

// Types are the types of keys.
var Types = []object.Type{object.TypeString, object.TypeHash, object.TypeList, object.TypeSet,
	object.TypeZSet, object.TypeStream, object.TypeLease, object.TypeLimit, object.TypeDelay}

// TypeCounts are numbers of keys, by type.
type TypeCounts [object.TypeDelay + 1]int64

// typesStep is about how many keys a step of CountTypes looks at. typesSlot is the largest slot
// that it counts with the shard locked.
const (
	typesStep = 512
	typesSlot = 4 * typesStep
)

// CountTypes counts the live keys of a database by type. It reads the records of those that are
// only on disk. A key that changes meanwhile counts in its old or new state. CountTypes calls next
// after each step, without a lock, and ends if next returns false. whole is false in that case, and
// also if the data file could not be read.
func (s *Store) CountTypes(db int, next func() bool) (counts TypeCounts, whole bool) {
	w := walk{View: s.Monitoring(), hidden: true}
	for cursor := uint64(0); cursor < scanEnd; {
		from := cursor
		if cursor = w.countInMemory(db, from, &counts); cursor == from {
			var err error
			if cursor, err = w.scan(db, from, typesStep, func(_ []byte, typ object.Type) {
				counts[typ]++
			}); err != nil {
				return counts, false
			}
			if cursor == 0 {
				cursor = scanEnd
			}
		}
		if !next() {
			return counts, false
		}
	}
	return counts, true
}

// countInMemory counts the keys of slots from a cursor on, up to the end of a shard. It stops at a
// slot that is large or may have keys only on disk, and after about typesStep keys. It counts
// nothing if a key is due. It returns the cursor to go on from.
func (w *walk) countInMemory(db int, from uint64, counts *TypeCounts) (next uint64) {
	number := uint16(from >> hashtable.HashBits)
	sh := w.s.shards[w.s.shardOf(number)]
	w.lock(sh)
	defer w.unlock(sh)
	p := sh.mu.parts[db]
	if p == nil {
		return w.behind(sh)
	}
	if from != position(number, 0) || sh.nextDue.Load() <= w.now() {
		return from
	}
	next = w.behind(sh)
	looks := 0
	p.used(int(number-p.first), func(sl *slot) bool {
		if sl.partial || sl.table.Len() > typesSlot || looks > typesStep {
			next = position(sl.num, 0)
			return false
		}
		looks += sl.table.Len()
		sl.table.Walk(func(c *cell) {
			if o := p.objectOf(*c); o == nil && exists(c) {
				counts[object.TypeString]++
			} else if exists(c) {
				counts[o.val.Type()]++
			}
		})
		return true
	})
	return next
}

// Histograms are of lateness and durations in microseconds, and of sizes in bytes, since Open.
type Histograms struct {
	KeyLateness, ElementLateness histogram.Reading // from deadline to removal
	Checkpoints                  histogram.Reading // that finished
	LogSyncs, LogCommits         histogram.Reading // durations of syncs, bytes of commits
}

// Histograms returns the present histograms.
func (s *Store) Histograms() Histograms {
	return Histograms{
		KeyLateness: s.late.keys.Read(), ElementLateness: s.late.elements.Read(),
		Checkpoints: s.checkpointer.took.Read(),
		LogSyncs:    s.log.Syncs(), LogCommits: s.log.Commits(),
	}
}

// FailedCheckpoints returns how many checkpoints have failed since Open.
func (s *Store) FailedCheckpoints() int64 { return s.checkpointer.failures.Load() }

// DiskReserve returns the free space in bytes below which growth is refused.
func (s *Store) DiskReserve() uint64 { return s.diskReserve.Load() }
