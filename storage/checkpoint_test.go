package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"keyp/internal/vfs"
	"keyp/storage/datafile"
	"keyp/storage/format"
	"keyp/ttl"
)

// TestAskedCheckpointIsUnderWay: after StartCheckpoint a checkpoint counts as under way at once, so
// BGSAVE can reply that it has begun.
func TestAskedCheckpointIsUnderWay(t *testing.T) {
	h := newHarness(t)
	t.Cleanup(func() { h.s.Close(false) })
	if h.s.Checkpointing() || !h.s.StartCheckpoint() {
		t.Fatal("none was under way")
	}
	if !h.s.Checkpointing() || h.s.StartCheckpoint() {
		t.Error("the one asked for does not count")
	}
}

// TestFlushDuringCheckpoint empties a database just after a checkpoint has copied its keys, with
// tombstones among them.
func TestFlushDuringCheckpoint(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	var keys []Key
	for i := range 40 {
		k := h.s.Key(0, fmt.Appendf(nil, "{tag}%d", i))
		keys = append(keys, k)
		h.do(func(x *Txn) {
			x.SetString(k, make([]byte, 100), ttl.Deadline{}, Event{EventString, "set"})
		}, k)
	}
	h.saved()
	for _, k := range keys[20:] {
		h.do(func(x *Txn) { x.Delete(k, Deleted) }, k)
	}
	for _, k := range keys[:10] {
		h.do(func(x *Txn) {
			x.SetString(k, []byte("new"), ttl.Deadline{}, Event{EventString, "set"})
		}, k)
	}
	h.commit()
	m, err := h.s.checkpointer.rotate()
	if err != nil {
		t.Fatal(err)
	}
	var b cpBatch
	h.copySlot(&b, keys[0])
	h.doAll(func(x *Txn) { x.FlushDB(0) })
	if err := h.s.checkpointer.commitBatch(&b); err != nil {
		t.Fatal(err)
	}
	m.parts = nil
	if err := h.s.checkpointer.writeSince(m); err != nil {
		t.Fatal(err)
	}
	h.commit()
	h.check()
	h.reopen()
	if n, _ := h.s.Count(0); n != 0 {
		t.Fatalf("%d keys after FLUSHDB", n)
	}
}

// copySlot makes a checkpoint copy a key's slot.
func (h *harness) copySlot(b *cpBatch, k Key) {
	p := h.s.part(k)
	for from, done := uint32(0), false; !done; {
		from, done = h.s.checkpointer.copySlot(b, p, p.slot(k), from)
	}
}

// TestTwoRecordsOfOneValue: a value is renamed twice while a checkpoint runs. Two records in the
// data file then name the value, and neither is its current one. Later the checkpoint and the next
// one, or after a crash only the next one, remove these records. The elements must stay.
func TestTwoRecordsOfOneValue(t *testing.T) {
	for _, first := range []string{"", "a", "b", "ab"} { // the slots it comes to between
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprintf("first=%s,crash=%v", first, crash), func(t *testing.T) {
				renameTwice(t, first, crash)
			})
		}
	}
}

func renameTwice(t *testing.T, first string, crash bool) {
	h := newHarness(t)
	defer func() { h.s.Close(false) }()
	a, b, c := h.s.Key(0, []byte("a")), h.s.Key(0, []byte("b")), h.s.Key(0, []byte("c"))
	for i := 0; b.Slot == a.Slot || h.s.shardOf(a.Slot) != h.s.shardOf(b.Slot); i++ {
		// Another slot, the same part.
		b = h.s.Key(0, fmt.Appendf(nil, "b%d", i))
	}
	h.do(func(x *Txn) { x.SetString(a, make([]byte, 20_000), ttl.Deadline{}, Event{}) }, a)
	h.do(func(x *Txn) { x.SetString(b, []byte("old"), ttl.Deadline{}, Event{}) }, b)
	h.saved()
	m, err := h.s.checkpointer.rotate()
	if err != nil {
		t.Fatal(err)
	}
	come := func(k Key) {
		var batch cpBatch
		h.copySlot(&batch, k)
		if err := h.s.checkpointer.commitBatch(&batch); err != nil {
			t.Fatal(err)
		}
	}
	h.do(func(x *Txn) { x.Rename(a, b) }, a, b)
	h.commit()
	for _, k := range first {
		come(map[rune]Key{'a': a, 'b': b}[k])
	}
	h.do(func(x *Txn) { x.Rename(b, c) }, b, c)
	h.commit()
	if crash {
		h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{})
	} else {
		come(a)
		if err := h.s.checkpointer.writeSince(m); err != nil {
			t.Fatal(err)
		}
	}
	h.saved()
	h.check()
	h.reopen()
	h.do(func(x *Txn) {
		it, ok := x.Get(c)
		if !ok {
			t.Fatal("the value is gone")
		}
		if v, err := it.String(); err != nil || len(v) != 20_000 {
			t.Fatalf("%d bytes, %v", len(v), err)
		}
	}, c)
}

// TestDamageWhileIdle: a checkpoint fails at a damaged page. No further checkpoint starts by
// itself, for the sake of the log or of memory, before there is something new to write. Until then
// a checkpoint that is asked for uses no further segment of the log.
func TestDamageWhileIdle(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	set := func(i int) {
		k := h.s.Key(0, fmt.Append(nil, "large", i))
		h.do(func(x *Txn) { x.SetString(k, make([]byte, staleBytes/2), ttl.Deadline{}, Event{}) },
			k)
		h.commit()
	}
	set(0)
	set(1)
	set(2)
	damaged := true
	h.s.options.Testing.OnStep = func(at datafile.Step) error {
		if at == datafile.StepWrite && damaged {
			return fmt.Errorf("%w: a page", ErrCorrupt)
		}
		return nil
	}
	if !h.s.checkpointer.stale(0) || !h.s.checkpointer.mayStart() {
		t.Fatal("memory is not stale enough")
	}
	fail := func() {
		if err := h.s.Checkpoint(); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("the checkpoint gave %v", err)
		}
	}
	segments := func() int {
		names, err := h.fs.List(filepath.Join(h.dir, format.LogDir))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	fail()
	was := segments()
	for range 10 {
		h.clock.Advance(time.Hour)
		h.s.house.round()
		h.s.checkpointer.refresh(0)
		if h.s.Checkpointing() {
			t.Fatal("an idle server begins another checkpoint")
		}
		fail()
	}
	if now := segments(); now > was {
		t.Errorf("the log grew from %d to %d segments when nothing was written", was, now)
	}
	set(3)
	h.clock.Advance(time.Hour)
	damaged = false
	if h.s.checkpointer.refresh(0); !h.s.Checkpointing() {
		t.Fatal("none begins when there is something to write")
	}
	h.saved()
	h.check()
}

// TestSteadyLoadReusesSegments: the log always grows to the size that starts a checkpoint. From the
// second checkpoint on, the log reuses the segments that the previous checkpoint released, and the
// number of segments does not grow.
func TestSteadyLoadReusesSegments(t *testing.T) {
	h := closedHarness(t)
	o := h.options()
	o.CheckpointBytes = 16 * o.SegmentSize
	made := 0
	o.FS = vfs.Inject(h.fs, func(op vfs.Op, name string, _ int64, _ int) error {
		if op == vfs.OpCreate && filepath.Base(filepath.Dir(name)) == format.LogDir {
			made++
		}
		return nil
	})
	s, _, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(false)
	h.s, h.txn = s, s.NewTxn()
	k := s.Key(0, []byte("k"))
	for round := range 4 {
		before := made
		for s.log.Size() <= o.CheckpointBytes {
			h.do(func(x *Txn) {
				x.SetString(k, make([]byte, 10_000), ttl.Deadline{}, Event{EventString, "set"})
			}, k)
			h.commit()
		}
		h.saved()
		if n := made - before; round > 0 && n > 2 {
			t.Errorf("%d new segments in round %d, of some %d used", n, round,
				o.CheckpointBytes/o.SegmentSize)
		}
	}
	files, err := h.fs.List(filepath.Join(h.dir, format.LogDir))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) > 16+3 { // the spares, the segment in use, and the one that is ready
		t.Errorf("%d files in the log's directory", len(files))
	}
}
