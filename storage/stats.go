package storage

import (
	"sync/atomic"

	"keyp/internal/vfs"
)

// Stats is a reading of the store's counters.
type Stats struct {
	Memory       int64 // bytes of keys, tables and indexes in memory
	Dirty        int64 // bytes that the data file does not have yet
	Resident     int64 // keys of clients in memory
	PartialSlots int64 // slots with keys that are only on disk
	Expired      int64 // since the start
	// ExpiredElements are elements of collections that expired by themselves.
	ExpiredElements int64
	Evictions       int64
	Loads           int64
	LoadErrors      int64
	BadDeadlines    int64
	ClockSteps      int64
	Checkpoints     int64
	CheckpointKeys  int64
	Changes         int64 // of keys, that the log states since the last checkpoint
	LogBytes        int64 // that recovery would replay
	LogEnd          uint64
	LogDurable      uint64
	DataBytes       int64 // size of the data file
	DataFree        int64 // of it, reusable
	FreeSpace       uint64
	Lateness        LatenessStats
	Clock           ClockGuard
	Archive         ArchiveStatus
	Archived        bool // Archive says something
}

// LatenessStats is how late expired keys were removed, in ms.
type LatenessStats struct{ P50, P99, Max, Count int64 }

// Stats reads the counters. Outside a transaction it does not wait for shards that belong to a
// global transaction, but uses their last reading.
func (v View) Stats() Stats {
	s := v.s
	st := Stats{
		PartialSlots:    s.partials.Load(),
		Expired:         s.stats.Expired.Load(),
		ExpiredElements: s.stats.ExpiredElements.Load(),
		Evictions:       s.stats.Evictions.Load(),
		Loads:           s.stats.Loads.Load(),
		LoadErrors:      s.stats.LoadErrors.Load(),
		BadDeadlines:    s.stats.BadDeadlines.Load(),
		ClockSteps:      s.stats.ClockSteps.Load(),
		Checkpoints:     s.checkpointer.finished.Load(),
		CheckpointKeys:  s.stats.CheckpointKeys.Load(),
		Changes:         s.changes.Load(),
		LogBytes:        s.log.Size(),
		LogEnd:          s.log.End(),
		LogDurable:      s.log.Durable(),
	}
	st.Memory, st.Dirty = v.measure()
	for _, sh := range s.shards {
		st.Resident += sh.resident.Load()
	}
	st.DataBytes, st.DataFree = s.file.Use()
	st.FreeSpace, _ = vfs.OS.Free(s.options.Dir)
	l := s.lateness.Snapshot()
	st.Clock = s.ClockGuard()
	st.Archive, st.Archived = s.archiveStatus()
	st.Lateness = LatenessStats{int64(l.P50), int64(l.P99), int64(l.Max), int64(l.Count)}
	return st
}

// AverageTTL returns the mean time, in ms, to the next deadlines of a database's keys in memory,
// their own or of elements; 0 if there are none.
func (v View) AverageTTL(db int) int64 {
	var sum, n int64
	v.each(db, func(p *part) { sum, n = sum+p.sum, n+int64(p.index.Len()) })
	if n == 0 {
		return 0
	}
	return max(sum/n-(v.now()-v.s.opened), 0)
}

// counters are the store's counters in INFO.
type counters struct {
	Expired atomic.Int64
	// ExpiredElements of collections; their keys are not counted.
	ExpiredElements atomic.Int64
	Evictions       atomic.Int64 // keys that left memory; nothing is lost
	Loads           atomic.Int64 // reads of the data file
	LoadErrors      atomic.Int64
	BadDeadlines    atomic.Int64
	ClockSteps      atomic.Int64
	CheckpointKeys  atomic.Int64
}
