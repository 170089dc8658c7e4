package storage

import (
	"slices"

	"keyp/internal/tally"
)

// What monitoring reads. It runs beside the commands, whatever runs: it never waits for a global
// transaction, but has the last reading of a shard that belongs to one, and locks one shard at a time,
// behind the commands, for some microseconds.

// Population is how many keys a database has, and how many of them have a deadline, as Count has
// them. AverageTTL is View.AverageTTL's, in ms.
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

// Populations gives the databases that have keys, in their order.
func (s *Store) Populations() []Population {
	by := map[int]shardPopulation{}
	for _, sh := range s.shards {
		for _, p := range sh.population() {
			all := by[p.db]
			by[p.db] = shardPopulation{p.db, all.keys + p.keys, all.expires + p.expires, all.sum + p.sum, all.indexed + p.indexed}
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

// Histograms are of lateness and durations in microseconds, and of sizes in bytes, since Open.
type Histograms struct {
	KeyLateness, ElementLateness tally.Reading // from deadline to removal
	Checkpoints                  tally.Reading // that finished
	LogSyncs, LogCommits         tally.Reading // durations of syncs, bytes of commits
}

// Histograms reads them.
func (s *Store) Histograms() Histograms {
	return Histograms{
		KeyLateness: s.late.keys.Read(), ElementLateness: s.late.elements.Read(), Checkpoints: s.checkpointer.took.Read(),
		LogSyncs: s.log.Syncs(), LogCommits: s.log.Commits(),
	}
}

// FailedCheckpoints is how many checkpoints have failed since Open.
func (s *Store) FailedCheckpoints() int64 { return s.checkpointer.failures.Load() }

// DiskReserve is the free space in bytes below which growth is refused.
func (s *Store) DiskReserve() uint64 { return s.diskReserve.Load() }
