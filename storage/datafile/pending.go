package datafile

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/format"
)

// The bucket values has the records of all keys, slot by slot. The bucket ttl has an entry for each
// key with a deadline, in order of time. A checkpoint writes slot by slot, so its changes are
// scattered over ttl: with each transaction it would write most pages of ttl again. Instead a
// transaction appends its changes of ttl to a third bucket, pending. They are applied to ttl when
// pending has pendingBytes, and before the checkpoint ends: sorted, from the front of ttl to its
// end, in transactions of bounded size. The last of these empties pending.
//
//   - After the pending changes are applied, ttl has the deadlines of the records in values.
//   - Applying them again changes nothing, so a crash between two transactions does no harm.
//   - As long as changes about a slot are pending, its keys stay in memory. So readers find the
//     deadline of each key that is only on disk in ttl, and need not look at pending.
//   - After a crash the keys of pending changes are in the log. So a start brings them into memory,
//     and the next checkpoint applies the changes before it writes anything else.
//   - ttl may have outdated entries: of keys that are gone, or have another deadline or none. So
//     its readers look at the key's record, too.
const (
	// pendingValue is the length of a value of pending.
	pendingValue = 128 << 10
	// pendingPages bounds a transaction that applies changes.
	pendingPages = 2048
	// FillPercent is how full bbolt leaves the pages it splits.
	FillPercent = 0.8
)

// Changes are the changes of ttl that a batch's transaction writes to pending.
type Changes struct {
	values [][]byte // the first used are in use
	used   int
}

// Reset removes all changes.
func (d *Changes) Reset() { d.used = 0 }

// Add notes that the entry of a key in ttl moves from the deadline of old to that of new, and
// returns whether that changes anything. at is the key's place in the bucket values.
func (d *Changes) Add(at []byte, old, new format.Times) bool {
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

// Write adds the changes to pending, which refers to them until the transaction ends, and returns
// their length.
func (d *Changes) Write(tx *bolt.Tx) (size int, err error) {
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

// PendingBytes returns the length of a data file's pending changes; damaged ones count too.
func PendingBytes(tx *bolt.Tx) (size int) {
	_ = Each(tx, format.BucketPending, nil, func(error) { size++ }, func(_, v []byte) error {
		size += len(v)
		return nil
	})
	return size
}

// EmptyPending removes all pending changes.
func EmptyPending(tx *bolt.Tx) error {
	if err := tx.DeleteBucket(format.BucketPending); err != nil {
		return err
	}
	_, err := tx.CreateBucket(format.BucketPending)
	return err
}

// Pending has the pending changes of a data file.
type Pending struct {
	format.Moves
	Damaged error // a value of pending that was left out
}

// Read reads all of pending.
func (d *Pending) Read(tx *bolt.Tx) error {
	d.Grow(PendingBytes(tx))
	err := Each(tx, format.BucketPending, nil, func(err error) {
		d.Damaged = err
	}, func(k, v []byte) error {
		if !d.Add(v) {
			d.Damaged = fmt.Errorf("%w: value %x of bucket pending", format.ErrCorrupt, k)
		}
		return nil
	})
	if err != nil {
		return err
	}
	d.Split()
	return nil
}

// Some applies as many moves as fit one transaction, from number from on. It returns the next
// number.
func (d *Pending) Some(tx *bolt.Tx, from, step int) (next int, err error) {
	b := tx.Bucket(format.BucketTTL)
	b.FillPercent = FillPercent
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
