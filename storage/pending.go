package storage

import (
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/format"
)

// The bucket ttl is in order of time, but a checkpoint writes slot by slot. So the changes of ttl
// by one batch are scattered over the bucket: applying them with each batch would write most of its
// pages each time. Instead the transaction of a batch appends them to the bucket pending. The
// changes are applied when pending has pendingBytes, and before the checkpoint ends. They are
// sorted, and applied from the front of ttl to its end, in transactions of bounded size; the last
// one empties pending. A checkpoint begins with pending empty, and collects garbage only after it
// is empty again.
//
//   - After the pending changes are applied in their order, ttl always agrees with values.
//   - Applying them again changes nothing, so a crash between two transactions does no harm.
//   - Before they are applied, no key of the slots concerned leaves memory. So every key that is
//     only on disk has its entry in ttl: diskDeadlines needs no other.
//   - After a crash they concern keys that are in the log. Replay makes these keys dirty or
//     tombstones, or notes that they are reaped. The next checkpoint applies the changes before it
//     writes anything, so they are applied before any of these keys is clean.
//   - ttl may have outdated entries: of keys that are gone, or have another deadline or none. So
//     its readers look at the key's record, too.
const (
	// pendingBytes is the length of changes that are applied together. If MaxMemory is small, it is
	// MaxMemory/pendingShare, but at least pendingMin. Applying them needs twice that memory.
	pendingBytes = 64 << 20
	pendingShare = 64
	pendingMin   = 4 << 20
	// pendingValue is the length of a value of pending.
	pendingValue = 128 << 10
	// pendingStep and pendingPages bound a transaction that applies changes.
	pendingStep  = 128 << 10
	pendingPages = 2048
)

// dueChanges are the changes of ttl that a batch's transaction writes to pending.
type dueChanges struct {
	values [][]byte // the first used are in use
	used   int
}

func (d *dueChanges) reset() { d.used = 0 }

// add notes that the entry of the key at at moves from old's deadline to new's, and returns whether
// that changes anything.
func (d *dueChanges) add(at []byte, old, new format.Times) bool {
	if old.Due()|new.Due() == 0 || old.SameEntry(new) {
		return false
	}
	if d.used == 0 || len(d.values[d.used-1]) >= pendingValue {
		if d.used == len(d.values) {
			d.values = append(d.values, make([]byte, 0, pendingValue+1<<10))
		}
		d.values[d.used] = append(d.values[d.used][:0], 0, 0, 0, 0)
		d.used++
	}
	v := &d.values[d.used-1]
	*v = format.AppendChange(*v, at, old, new)
	return true
}

// write adds the changes to pending, which refers to them until the transaction ends, and returns
// their length.
func (d *dueChanges) write(tx *bolt.Tx) (size int, err error) {
	b := tx.Bucket(format.BucketPending)
	for _, v := range d.values[:d.used] {
		seq, err := b.NextSequence()
		if err != nil {
			return 0, err
		}
		format.SealChanges(v)
		if err := b.Put(binary.BigEndian.AppendUint64(nil, seq), v); err != nil {
			return 0, err
		}
		size += len(v)
	}
	return size, nil
}

// pendingIn returns the length of a data file's pending changes; damaged ones count too.
func pendingIn(tx *bolt.Tx) (size int) {
	_ = each(tx, format.BucketPending, nil, func(error) { size++ }, func(_, v []byte) error {
		size += len(v)
		return nil
	})
	return size
}

func emptyPending(tx *bolt.Tx) error {
	if err := tx.DeleteBucket(format.BucketPending); err != nil {
		return err
	}
	_, err := tx.CreateBucket(format.BucketPending)
	return err
}

// pendingMoves are a data file's pending changes.
type pendingMoves struct {
	format.Moves
	damaged error // a value of pending that was left out
}

// read reads all of pending.
func (d *pendingMoves) read(tx *bolt.Tx) error {
	d.Grow(pendingIn(tx))
	err := each(tx, format.BucketPending, nil, func(err error) {
		d.damaged = err
	}, func(k, v []byte) error {
		if !d.Add(v) {
			d.damaged = fmt.Errorf("%w: value %x of bucket pending", ErrCorrupt, k)
		}
		return nil
	})
	if err != nil {
		return err
	}
	d.Split()
	return nil
}

// some applies as many moves as fit one transaction, from number from on. It returns the next
// number.
func (d *pendingMoves) some(tx *bolt.Tx, from, step int) (next int, err error) {
	b := tx.Bucket(format.BucketTTL)
	b.FillPercent = fillPercent
	var at []byte
	for next = from; next < len(d.List) && next-from < step; next++ {
		if stats := tx.Stats(); stats.GetNodeCount() >= pendingPages {
			break
		}
		m := d.List[next]
		at = format.TTLKey(at[:0], m.Due, d.On(m))
		if m.Put {
			err = b.Put(at, d.Entry(m, at))
		} else {
			err = b.Delete(at)
		}
		if err != nil {
			return from, err
		}
	}
	return next, nil
}

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
	var d pendingMoves
	if err := s.file.view(d.read); err != nil {
		return err
	}
	if d.damaged != nil {
		s.stats.BadDeadlines.Add(1)
		s.options.Logger.Error("changes of deadlines are corrupt on disk and ignored; their keys expire, but may be counted until they are asked for",
			"error", d.damaged)
	}
	d.Sort()
	for next, done := 0, false; !done; {
		if err := s.options.Testing.step(StepPending); err != nil {
			return err
		}
		from := next
		err := s.file.update(func(tx *bolt.Tx) (err error) {
			if next, err = d.some(tx, from, s.bounds.pendingStep); err != nil {
				return err
			}
			if done = next == len(d.List); done {
				err = emptyPending(tx)
			}
			if done && d.damaged != nil {
				cp.mu.ttlDoubtful = true
				err = errors.Join(err, putMeta(tx, format.MetaDoubt, nil))
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
