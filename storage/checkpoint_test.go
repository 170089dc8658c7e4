package storage

import (
	"fmt"
	"testing"
)

// be told that it has begun.
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

// TestFlushDuringCheckpoint empties a database whose keys a checkpoint has just copied,
// tombstones among them.
func TestFlushDuringCheckpoint(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	var keys []Key
	for i := range 40 {
		k := h.s.Key(0, fmt.Appendf(nil, "{tag}%d", i))
		keys = append(keys, k)
		h.do(func(x *Txn) { x.SetString(k, make([]byte, 100), 0, Event{EventString, "set"}) }, k)
	}
	h.saved()
	for _, k := range keys[20:] {
		h.do(func(x *Txn) { x.Delete(k, Deleted) }, k)
	}
	for _, k := range keys[:10] {
		h.do(func(x *Txn) { x.SetString(k, []byte("new"), 0, Event{EventString, "set"}) }, k)
	}
	h.commit()
	m, err := h.s.rotate()
	if err != nil {
		t.Fatal(err)
	}
	var b cpBatch
	for _, p := range m.parts {
		for i := range p.slots {
			for from, done := uint32(0), false; !done; {
				from, done = h.s.copySlot(&b, p, &p.slots[i], from)
			}
		}
	}
	h.doAll(func(x *Txn) { x.FlushDB(0) })
	if err := h.s.commitBatch(&b); err != nil {
		t.Fatal(err)
	}
	m.parts = nil
	if err := h.s.checkpointSince(m); err != nil {
		t.Fatal(err)
	}
	h.commit()
	h.check()
	h.reopen()
	if n, _ := h.s.Count(0); n != 0 {
		t.Fatalf("%d keys after FLUSHDB", n)
	}
}
