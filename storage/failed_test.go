package storage

import (
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/ttl"
)

// TestGarbageOutlivesFailedCheckpoint: data that must still be deleted from the data file (garbage)
// is recorded by a checkpoint. It is deleted in the end, even if the first such checkpoint finds no
// space on the disk.
func TestGarbageOutlivesFailedCheckpoint(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	k := h.keyOf(0)
	h.hash(k, func(_ *Txn, v *Hash) {
		for i := range 200 {
			v.Set([]byte{byte(i)}, make([]byte, 100), ttl.Deadline{})
		}
	})
	h.saved()
	h.doAll(func(x *Txn) { x.FlushDB(0) })
	h.commit()
	h.s.options.Testing.OnStep = func(step datafile.Step) error {
		if step == datafile.StepWrite {
			return syscall.ENOSPC
		}
		return nil
	}
	if err := h.s.Checkpoint(); !OutOfSpace(err) {
		t.Fatalf("the checkpoint ended with %v", err)
	}
	h.s.options.Testing.OnStep = nil
	h.saved()
	if n := h.elements(); n != 0 {
		t.Errorf("%d elements of an emptied database are left on disk", n)
	}
	err := h.s.file.View(func(tx *bolt.Tx) error {
		return datafile.Each(tx, format.BucketValues, nil, nil, func(at, _ []byte) error {
			t.Errorf("record %x is left", at)
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// TestLatestGarbageOutlivesFailedCheckpoint: a value is renamed before a checkpoint and deleted
// while it runs. Its elements are not forgotten when the checkpoint's last transaction finds no
// space.
func TestLatestGarbageOutlivesFailedCheckpoint(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	h.s.bounds.batchBytes = 1 // one commit for each slot
	from, to := h.keyOf(0), h.keyOf(2)
	h.hash(from, func(_ *Txn, v *Hash) {
		for i := range 200 {
			v.Set([]byte{byte(i)}, make([]byte, 100), ttl.Deadline{})
		}
	})
	h.saved()
	h.do(func(x *Txn) { x.Rename(from, to) }, from, to)
	h.commit()
	deleted := false
	h.s.options.Testing.OnStep = func(step datafile.Step) error {
		switch {
		case step == datafile.StepWritten && !deleted: // the old key's shard is written
			deleted = true
			h.do(func(x *Txn) { x.Delete(to, Deleted) }, to)
			h.commit()
		case step == datafile.StepWrite && deleted && len(h.s.garbage.mu.items) == 0:
			// The last transaction has already taken the list of garbage.
			return syscall.ENOSPC
		}
		return nil
	}
	if err := h.s.Checkpoint(); !OutOfSpace(err) {
		t.Fatalf("the checkpoint ended with %v", err)
	}
	h.s.options.Testing.OnStep = nil
	h.saved()
	if n := h.elements(); n != 0 {
		t.Errorf("%d elements of a deleted value are left on disk", n)
	}
}

// TestMissWaitsForRemoval: a reply that a key is gone waits for the record of its removal, and for
// no other record.
func TestMissWaitsForRemoval(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	k, other := h.keyOf(0), h.keyOf(1)
	for _, way := range []string{"deleted", "expired"} {
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(h.clock.Now()+1000), eventSet) }, k)
		if way == "expired" {
			h.clock.Advance(2_000_000_000)
			h.s.Reap()
		} else {
			h.do(func(x *Txn) { x.Delete(k, Deleted) }, k)
		}
		removed := h.s.Log().End()
		h.do(func(x *Txn) { x.SetString(other, []byte("v"), ttl.Deadline{}, eventSet) }, other)
		if !h.s.Begin(h.txn, []Key{k}) {
			t.Fatal("the key is not in memory")
		}
		if _, there := h.txn.Get(k); there {
			t.Fatal("the key is there")
		}
		if lsn := h.txn.End(); lsn != removed {
			t.Errorf("%s: a miss depends on %d, the removal is durable at %d", way, lsn, removed)
		}
	}
}
