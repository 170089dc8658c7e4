package storage

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"keyp/internal/testkit/await"
	"keyp/storage/datafile"
	"keyp/ttl"
)

// TestStopOfManyDatabases: the checkpoint of a stop writes the keys of many databases in few
// transactions, each of which syncs the data file twice.
func TestStopOfManyDatabases(t *testing.T) {
	h := closedHarness(t)
	h.databases = 300
	h.open()
	for db := range h.databases {
		var keys []Key
		for i := range 100 {
			keys = append(keys, h.s.Key(db, fmt.Appendf(nil, "key:%d:%d", db, i)))
		}
		h.do(func(x *Txn) {
			for _, k := range keys {
				x.SetString(k, []byte("v"), ttl.Deadline{}, Event{})
			}
		}, keys...)
		h.recent = nil
	}
	h.commit()
	writes := 0
	h.s.options.Testing.OnStep = only(datafile.StepWrite, func() error {
		writes++
		return nil
	})
	if err := h.s.Close(true); err != nil {
		t.Fatal(err)
	}
	const most = 16
	if writes > most {
		t.Errorf("the stop wrote %d transactions, want %d at most", writes, most)
	}
	t.Logf("%d transactions", writes)
}

// TestPartsInOrder: a checkpoint writes the keys of many databases in the order of the data file,
// even if some databases were emptied or swapped.
func TestPartsInOrder(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	fill := func() {
		for db := range h.databases {
			for i := range 40 {
				k := h.s.Key(db, fmt.Appendf(nil, "key%d", i))
				h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.Deadline{}, Event{}) }, k)
			}
		}
		h.commit()
	}
	fill()
	h.doAll(func(x *Txn) { x.SwapDB(0, 2); x.FlushDB(1) })
	fill()
	moment, err := h.s.checkpointer.rotate()
	if err != nil {
		t.Fatal(err)
	}
	var b cpBatch
	for _, p := range moment.parts {
		if err := h.s.checkpointer.copyPart(&b, p); err != nil {
			t.Fatal(err)
		}
	}
	b.sort()
	if len(b.entries) != h.databases*40 {
		t.Fatalf("%d keys were copied", len(b.entries))
	}
	if !slices.IsSortedFunc(b.entries, func(x, y entry) int { return bytes.Compare(x.at, y.at) }) {
		t.Error("the keys are not in the order of the data file")
	}
	h.s.checkpointer.uncopy(&b)
	h.s.checkpointer.arrivals.reset()
	h.saved()
}

// TestEmptyDatabaseFreesTables: when the removal of all keys of a database is durable and in the
// data file, the memory of its tables is freed.
func TestEmptyDatabaseFreesTables(t *testing.T) {
	const keys = 5000
	for _, stored := range []bool{false, true} {
		t.Run(fmt.Sprint("stored ", stored), func(t *testing.T) {
			h := newHarness(t)
			defer func() { _ = h.s.Close(false) }()
			empty := h.s.Stats().Memory
			var some []Key
			for i := range keys {
				if some = append(some, h.s.Key(0, fmt.Appendf(nil, "key%d", i))); len(some) == 100 {
					h.do(func(x *Txn) {
						for _, k := range some {
							x.SetString(k, []byte("v"), ttl.At(h.clock.Now()+1000), Event{})
						}
					}, some...)
					h.recent, some = nil, some[:0]
				}
			}
			h.commit()
			if stored {
				h.saved()
			}
			k := h.s.Key(0, []byte("key1"))
			epoch := h.s.part(k).slot(k).epoch
			full := h.s.Stats().Memory
			h.clock.Advance(time.Second)
			h.s.Reap()
			h.s.house.freeTables()
			if left := h.s.Stats().Memory; !stored && left <= full/2 {
				t.Errorf("%d bytes are left before the removal is durable", left)
			}
			h.model = model{}
			h.commit()
			if stored {
				h.saved()
			}
			h.s.house.freeTables()
			if left := h.s.Stats().Memory; left > empty+(full-empty)/100 {
				t.Errorf("%d bytes are left of %d, and it were %d at first", left, full, empty)
			}
			h.check()
			if now := h.s.part(k).slot(k).epoch; now <= epoch {
				t.Errorf("a slot that is made again has epoch %d, after %d", now, epoch)
			}
			h.do(func(x *Txn) { x.SetString(k, []byte("w"), ttl.Deadline{}, Event{}) }, k)
			h.model[name{0, "key1"}] = value{data: "w"}
			names := map[name]bool{{0, "key1"}: true, {0, "key2"}: true}
			h.saved()
			h.verify(names)
			h.evict()
			h.verify(names)
			h.reopen()
			h.verify(names)
		})
	}
}

// TestReadOfFreedSlot: a value that is read while its slot is emptied and freed does not come back.
func TestReadOfFreedSlot(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	h.portions = true
	h.reopen()
	k := h.s.Key(0, []byte("k"))
	h.fields(k, 2000, 100_000)
	h.saved()
	h.reopen()
	stretches := 0
	h.s.options.Testing.onStretch = func() {
		if stretches++; stretches != 2 {
			return
		}
		h.s.loads.loadAll()
		h.do(func(x *Txn) { x.Delete(k, Deleted) }, k)
		delete(h.model, name{0, "k"})
		h.saved()
		h.s.house.freeTables()
		if p := h.s.part(k); p.hasSlot(k) {
			t.Error("the slot is still there")
		}
	}
	h.load([]Key{k})
	if stretches < 3 {
		t.Errorf("%d stretches", stretches)
	}
	h.check()
	h.verify(map[name]bool{{0, "k"}: true})
}

// TestStopOnFullDisk: a checkpoint that waits for the log, which itself waits for space on the
// disk, does not delay a stop.
func TestStopOnFullDisk(t *testing.T) {
	for _, waits := range []bool{true, false} {
		h := closedHarness(t)
		o := h.options()
		o.NoBackground = false
		s, _, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		h.fs.SetFree(0)
		x := s.NewTxn()
		for i := range 4 {
			k := s.Key(0, fmt.Append(nil, i))
			if !s.Begin(x, []Key{k}) {
				t.Fatal("the key is not in memory")
			}
			x.SetString(k, make([]byte, 64<<10), ttl.Deadline{}, Event{})
			x.End()
		}
		if waits {
			s.StartCheckpoint()
		} else {
			s.Log().CommitAsync()
		}
		await.Until(t, "the log waits for room", s.Log().Full)
		closed := make(chan error, 1)
		go func() { closed <- s.Close(true) }()
		if err := await.For(t, "the stop", closed); err != nil {
			t.Errorf("a checkpoint waits: %v: %v", waits, err)
		}
		h.fs.SetFree(1 << 40)
		h.open()
		if err := h.s.Close(true); err != nil {
			t.Error(err)
		}
	}
}
