package storage

import (
	"fmt"
	"keyp/storage/format"
	"math/rand/v2"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// TestRenamedAndDeletedBesideCheckpoint: a large value is renamed before a checkpoint, which
// writes that its old key is gone, and is deleted or overwritten before the checkpoint comes to
// its new key. Its elements do not stay on disk, whether or not the store crashes afterwards.
func TestRenamedAndDeletedBesideCheckpoint(t *testing.T) {
	for _, end := range []string{"deleted", "overwritten", "renamed again and deleted", "flushed"} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprint(end, ", crash ", crash), func(t *testing.T) {
				h := newHarness(t)
				defer func() { _ = h.s.Close(false) }()
				h.s.bounds.batchBytes = 1 // one commit for each slot
				from, to, next := h.keyOf(0), h.keyOf(2), h.keyOf(3)
				h.hash(from, func(_ *Txn, v *Hash) {
					for i := range 200 {
						v.Set(fmt.Appendf(nil, "f%d", i), make([]byte, 100), 0)
					}
				})
				h.saved()
				h.do(func(x *Txn) { x.Rename(from, to) }, from, to)
				h.commit()
				written := 0
				h.s.options.Testing.OnStep = func(step Step) error {
					if step == StepWritten {
						written++
					}
					if step != StepWritten || written > 1 {
						return nil
					}
					switch end { // the first shard is written, the others are to come
					case "deleted":
						h.do(func(x *Txn) { x.Delete(to, Deleted) }, to)
					case "overwritten":
						h.do(func(x *Txn) { x.SetString(to, []byte("v"), 0, eventSet) }, to)
					case "renamed again and deleted":
						h.do(func(x *Txn) { x.Rename(to, next) }, to, next)
						h.do(func(x *Txn) { x.Delete(next, Deleted) }, next)
					case "flushed":
						h.doAll(func(x *Txn) { x.FlushDB(0) })
					}
					h.commit()
					return nil
				}
				h.saved()
				h.s.options.Testing.OnStep = nil
				if crash {
					h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{})
				}
				for range 2 {
					h.saved()
				}
				h.check()
				if err := h.s.Orphans(func(id uint64, n, _ int) { t.Errorf("%d elements of value %d belong to no key", n, id) }); err != nil {
					t.Error(err)
				}
				if n := h.elements(); n != 0 {
					t.Errorf("%d elements are left on disk", n)
				}
			})
		}
	}
}

// keyOf is a key of database 0 in a shard.
func (h *harness) keyOf(shard int) Key {
	for i := 0; ; i++ {
		if k := h.s.Key(0, fmt.Appendf(nil, "key%d", i)); h.s.shardOf(k.Slot) == shard {
			return k
		}
	}
}

// elements is how many the data file has of all values.
func (h *harness) elements() (n int) {
	err := h.s.file.view(func(tx *bolt.Tx) error {
		return each(tx, format.BucketElements, nil, nil, func(_, _ []byte) error { n++; return nil })
	})
	if err != nil {
		h.t.Error(err)
	}
	return n
}
