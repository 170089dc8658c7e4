package storage

import (
	"fmt"
	"testing"

	"keyp/storage/object"
)

// TestWalkVisitsUnlocked: names are visited, and so matched, while no shard is locked, wherever the keys are: that may take long.
func TestWalkVisitsUnlocked(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	const keys = 300
	for i := range keys {
		k := h.s.Key(1, fmt.Appendf(nil, "{same}k%03d", i))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), 0, Event{}) }, k)
	}
	for _, place := range []string{"in memory", "on disk"} {
		seen := 0
		visit := func([]byte, object.Type) {
			seen++
			h.unlocked(place)
		}
		if err := h.s.Walk(1, func(name []byte, typ object.Type) bool { visit(name, typ); return true }); err != nil || seen < keys {
			t.Errorf("%s: %d keys, %v", place, seen, err)
		}
		seen = 0
		if _, err := h.s.Scan(1, 0, 10, visit); err != nil || seen < 10 {
			t.Errorf("%s: %d keys, %v", place, seen, err)
		}
		h.saved()
		h.evict()
	}
}

// unlocked checks that no shard is locked.
func (h *harness) unlocked(place string) {
	h.t.Helper()
	for _, sh := range h.s.shards {
		if !sh.mu.tryLock() {
			h.t.Fatalf("%s: shard %d is locked while a name is matched", place, sh.num)
		}
		sh.mu.Unlock()
	}
}
