package storage

import (
	"testing"

	"keyp/ttl"
)

// TestResidentCountsKeys: removed keys that are still in the data file do not count as keys in
// memory.
func TestResidentCountsKeys(t *testing.T) {
	h := newHarness(t)
	defer func() { h.s.Close(false) }()
	var keys []Key
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		k := h.s.Key(0, []byte(name))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.Deadline{}, Event{}) }, k)
		keys = append(keys, k)
	}
	want := func(n int64) {
		t.Helper()
		h.s.measure()
		if got := h.s.Stats().Resident; got != n {
			t.Errorf("%d keys are in memory, want %d", got, n)
		}
	}
	want(5)
	if err := h.s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	for _, k := range keys[:3] {
		h.do(func(x *Txn) { x.Delete(k, Event{}) }, k)
	}
	want(2)
	h.do(func(x *Txn) { x.SetString(keys[0], []byte("v"), ttl.Deadline{}, Event{}) }, keys[0])
	want(3)
	if err := h.s.Check(); err != nil {
		t.Error(err)
	}
}
