package storage

import (
	"errors"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
)

// A checkpoint collects the changes of the bucket ttl and applies them together
// (datafile/pending.go).
const (
	// pendingBytes is the length of changes that are applied together. If MaxMemory is small, it is
	// MaxMemory/pendingShare, but at least pendingMin. Applying them needs twice that memory.
	pendingBytes = 64 << 20
	pendingShare = 64
	pendingMin   = 4 << 20
	// pendingStep bounds the changes that a transaction applies.
	pendingStep = 128 << 10
)

// pendingLimit returns the largest size of the pending changes, in bytes.
func (cp *checkpointer) pendingLimit() int {
	limit := cp.s.bounds.pendingBytes
	if m := cp.s.maxMemory.Load(); m > 0 {
		limit = min(limit, max(int(m/pendingShare), pendingMin))
	}
	return limit
}

// makePending applies all changes of pending.
func (cp *checkpointer) makePending() error {
	s := cp.s
	c := cp
	if c.mu.pending == 0 {
		return nil
	}
	began := workBegan()
	var d datafile.Pending
	if err := s.file.View(d.Read); err != nil {
		return err
	}
	if d.Damaged != nil {
		s.stats.BadDeadlines.Add(1)
		s.options.Logger.Error("changes of deadlines are corrupt on disk and ignored; their keys expire, but may be counted until they are asked for",
			"error", d.Damaged)
	}
	d.Sort()
	for next, done := 0, false; !done; {
		if err := s.options.Testing.step(StepPending); err != nil {
			return err
		}
		from := next
		err := s.updateFile(func(tx *bolt.Tx) (err error) {
			if next, err = d.Some(tx, from, s.bounds.pendingStep); err != nil {
				return err
			}
			if done = next == len(d.List); done {
				err = datafile.EmptyPending(tx)
			}
			if done && d.Damaged != nil {
				cp.mu.ttlDoubtful = true
				err = errors.Join(err, datafile.PutMeta(tx, format.MetaDoubt, nil))
			}
			return err
		})
		if err != nil {
			return err
		}
		cp.pace(began)
		began = workBegan()
	}
	cp.pendingMade()
	return nil
}

// pendingMade notes that all pending changes are applied.
func (cp *checkpointer) pendingMade() {
	c := cp
	c.mu.pending = 0
	for _, sl := range c.mu.awaited {
		sh := cp.s.shards[cp.s.shardOf(sl.num)]
		sh.mu.Lock()
		sl.awaiting = false
		sh.mu.Unlock()
	}
	c.mu.awaited = c.mu.awaited[:0]
}
