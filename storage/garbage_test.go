package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/ttl"
)

// TestRenamedAndDeletedBesideCheckpoint: a large value is renamed before a checkpoint. Between any
// two steps of the checkpoint it is deleted or overwritten, or its database is emptied. The
// checkpoint may write the removal of the old key before or after it copies the new key. After that
// the elements of the value are no longer on disk, also after a crash. If the crash comes before
// the deletion is durable, the value is there with all its elements.
func TestRenamedAndDeletedBesideCheckpoint(t *testing.T) {
	ends := map[string]func(h *harness, to, next, other Key){
		"deleted": func(h *harness, to, _, _ Key) {
			h.do(func(x *Txn) { x.Delete(to, Deleted) }, to)
		},
		"overwritten": func(h *harness, to, _, _ Key) {
			h.do(func(x *Txn) { x.SetString(to, []byte("v"), ttl.Deadline{}, eventSet) }, to)
		},
		"renamed again and deleted": func(h *harness, to, next, _ Key) {
			h.do(func(x *Txn) { x.Rename(to, next) }, to, next)
			h.do(func(x *Txn) { x.Delete(next, Deleted) }, next)
		},
		"flushed": func(h *harness, _, _, _ Key) { h.doAll(func(x *Txn) { x.FlushDB(0) }) },
		"renamed again and flushed": func(h *harness, to, next, _ Key) {
			h.do(func(x *Txn) { x.Rename(to, next) }, to, next)
			h.doAll(func(x *Txn) { x.FlushDB(0) })
		},
		"swapped and flushed": func(h *harness, _, _, _ Key) {
			h.doAll(func(x *Txn) { x.SwapDB(0, 1) })
			h.doAll(func(x *Txn) { x.FlushDB(1) })
		},
		"moved, and flushed where it was": func(h *harness, to, _, other Key) {
			h.do(func(x *Txn) { x.Rename(to, other) }, to, other)
			h.doAll(func(x *Txn) { x.FlushDB(0) })
		},
		"moved, and flushed where it is": func(h *harness, to, _, other Key) {
			h.do(func(x *Txn) { x.Rename(to, other) }, to, other)
			h.doAll(func(x *Txn) { x.FlushDB(1) })
		},
	}
	for end, happens := range ends {
		for _, shards := range [][3]int{{0, 2, 3}, {2, 0, 3}, {3, 2, 0}} {
			for at := 1; at <= 8; at++ {
				for _, crash := range []bool{false, true} {
					t.Run(fmt.Sprint(end, shards, ", step ", at, ", crash ", crash),
						func(t *testing.T) {
							testRenamedBeside(t, shards, at, crash, happens)
						})
				}
			}
		}
	}
}

func testRenamedBeside(t *testing.T, shards [3]int, at int, crash bool,
	happens func(h *harness, to, next, other Key)) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	h.s.bounds.batchBytes = 1 // one commit for each slot
	from, to, next := h.keyOf(shards[0]), h.keyOf(shards[1]), h.keyOf(shards[2])
	other := h.s.Key(1, next.Name)
	h.hash(from, func(_ *Txn, v *Hash) {
		for i := range 200 {
			v.Set(fmt.Appendf(nil, "f%d", i), make([]byte, 100), ttl.Deadline{})
		}
	})
	h.saved()
	h.do(func(x *Txn) { x.Rename(from, to) }, from, to)
	h.commit()
	steps := 0
	h.s.options.Testing.OnStep = func(step datafile.Step) error {
		if step == datafile.StepWrite || step == datafile.StepWritten {
			if steps++; steps == at {
				happens(h, to, next, other)
				h.commit()
			}
		}
		return nil
	}
	h.saved()
	h.s.options.Testing.OnStep = nil
	if steps < at {
		happens(h, to, next, other)
		h.commit()
	}
	if crash {
		h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{})
	}
	for range 3 {
		h.saved()
	}
	h.check()
	if err := h.s.Orphans(func(id uint64, n, _ int) {
		t.Errorf("%d elements of value %d belong to no key", n, id)
	}); err != nil {
		t.Error(err)
	}
	want := 0
	h.do(func(x *Txn) {
		if item, ok := x.Peek(other); ok {
			want = item.Value().Len()
		}
	}, other)
	if n := h.elements(); n != want {
		t.Errorf("%d elements are on disk, and the database has %d", n, want)
	}
}

// keyOf returns a key of database 0 in the given shard.
func (h *harness) keyOf(shard int) Key {
	for i := 0; ; i++ {
		if k := h.s.Key(0, fmt.Appendf(nil, "key%d", i)); h.s.shardOf(k.Slot) == shard {
			return k
		}
	}
}

// elements returns how many elements the data file has in all values.
func (h *harness) elements() (n int) {
	err := h.s.file.View(func(tx *bolt.Tx) error {
		return datafile.Each(tx, format.BucketElements, nil, nil, func(_, _ []byte) error {
			n++
			return nil
		})
	})
	if err != nil {
		h.t.Error(err)
	}
	return n
}
