package storage

import "testing"

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
