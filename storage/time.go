package storage

import (
	"sync"
	"sync/atomic"

	"keyp/storage/format"
)

// No reader sees a due key, whether it has been removed or not. After a restart such a key must not
// return, whatever the wall clock says by then. So every reply that shows a key as expired depends
// on a record of the log, and waits until that record is durable:
//
//   - A look-up by name removes due keys and elements (Txn.live). A record names the removed key or
//     elements, and memory keeps the LSN of that record. The reaper does the same, in memory and on
//     disk (diskDeadlines).
//   - A walk over the keyspace (View) passes over what is due and removes nothing. It logs how far
//     time had come (format.RecTime). A start does not let time be earlier than that, even
//     if the clock is. Then it removes what was due by the logged time, and only after that does
//     the store's time follow the clock.
//   - DBSIZE and other counts do not leave out due keys that have not been removed.
//
// A walk logs nothing if all keys that it skipped were due by a time that the log has already. So
// repeated walks add at most one record for each instant at which something became due.

// shownTime is the newest logged time of a walk that skipped due keys.
type shownTime struct {
	mu sync.Mutex // locked while a record is appended, so that records are in order of time
	// at is in Unix ms; 0: there is no record, or nothing depends on it any more. It is written
	// while mu is locked, and read without it.
	at atomic.Int64
}

// logTime logs the time, unless it is logged already. A reply that depends on the time depends on
// the end of the log.
func (s *Store) logTime() {
	s.shown.mu.Lock()
	defer s.shown.mu.Unlock()
	if now := s.instant.Load(); now > s.shown.at.Load() && !s.Follower() {
		s.appendTime(now)
	}
}

// markLog logs the time even if it is logged already. The batch is one that the log of another copy
// of the directory does not have at this position.
func (s *Store) markLog() {
	s.shown.mu.Lock()
	defer s.shown.mu.Unlock()
	s.appendTime(max(s.instant.Load(), s.shown.at.Load()))
}

// appendTime appends a record of the time. shown.mu is locked.
func (s *Store) appendTime(at int64) {
	record := format.AppendRecord(nil, format.RecTime, uint64(at))
	s.log.Append(record)
	s.shown.at.Store(at) // stored afterwards: what reads it finds the record before the log's end
	s.replayCost.Add(int64(len(record)) * byteCost)
}

// timeFollows sets the store's time, which may be later, back to now. Everything due is removed, so
// the log need not have its time any more. The transaction, which has all shards locked, ends here.
func (s *Store) timeFollows(t *Txn, now int64) {
	s.shown.mu.Lock()
	defer s.shown.mu.Unlock()
	if s.shown.at.Load() != 0 || s.options.Member { // followers' time follows, too
		t.record(format.RecTime, 0)
		s.shown.at.Store(0)
	}
	s.instant.Store(now)
	s.stepped.Store(false)
	s.guard.SteppedBack()
	t.shown = true
	t.End()
}

// resumeTime sets the store's time at a start to the latest logged time.
func (s *Store) resumeTime(at int64) {
	s.shown.at.Store(at)
	s.instant.Store(at)
}
