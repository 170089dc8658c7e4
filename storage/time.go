package storage

import (
	"keyp/storage/format"
	"sync"
	"sync/atomic"
)

// What is due is gone for everybody, whether it has been removed or not. A restart must not bring
// it back, whatever the wall clock says by then, so each look that shows something as gone rests
// on a record of the log, for which its reply waits:
//
//   - A look-up by name removes what it finds due (Txn.live): the key or its elements are named,
//     and the key's slot or the value notes the LSN. The reaper and the window do likewise.
//   - A walk over the keyspace (View) passes over what is due and removes nothing. It logs how far
//     time had come (recTime). A start does not let time be earlier than that: what was due
//     by then is due, and if the clock is behind, it is removed before time follows the clock.
//   - Counts change only when something is removed.
//
// A walk logs nothing if all that it passed over was due by the time that the log has already. So
// a client that asks again and again costs the log at most one record for each instant at which
// something became due.

// shownTime is how far time had come, by the newest record of that, when a walk passed over
// something that was due.
type shownTime struct {
	mu sync.Mutex   // held while a record is appended: their order is that of the instants
	at atomic.Int64 // Unix ms; 0: there is no record, or nothing rests on it any more
}

// logTime logs how far time has come, unless that is logged. What depends on it depends on the
// end of the log.
func (s *Store) logTime() {
	s.shown.mu.Lock()
	defer s.shown.mu.Unlock()
	if now := s.instant.Load(); now > s.shown.at.Load() {
		record := format.AppendRecord(nil, format.RecTime, uint64(now))
		s.log.Append(record)
		s.shown.at.Store(now) // then whoever reads it finds the record before the log's end
		s.replayCost.Add(int64(len(record)) * byteCost)
	}
}

// timeFollows makes now the store's time, which may be later than that. Everything that was due
// is removed, so the log need not have the time of it any more. The transaction, which holds all
// shards, ends here.
func (s *Store) timeFollows(t *Txn, now int64) {
	s.shown.mu.Lock()
	defer s.shown.mu.Unlock()
	if s.shown.at.Load() != 0 {
		t.buf = format.AppendRecord(t.buf, format.RecTime, 0)
		s.shown.at.Store(0)
	}
	s.instant.Store(now)
	s.stepped.Store(false)
	t.End()
}

// resumeTime is for a start: time is not before what the log says was shown.
func (s *Store) resumeTime(at int64) {
	s.shown.at.Store(at)
	s.instant.Store(at)
}
