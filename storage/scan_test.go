package storage

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"keyp/storage/object"
	"keyp/ttl"
)

// TestWalkVisitsUnlocked: names are visited, and so matched, while no shard is locked, as matching
// may take long. This holds whether keys are in memory or on disk.
func TestWalkVisitsUnlocked(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	const keys = 300
	for i := range keys {
		k := h.s.Key(1, fmt.Appendf(nil, "{same}k%03d", i))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.Deadline{}, Event{}) }, k)
	}
	for _, place := range []string{"in memory", "on disk"} {
		seen := 0
		visit := func([]byte, object.Type) {
			seen++
			h.unlocked(place)
		}
		if err := h.s.Walk(1, func(name []byte, typ object.Type) bool {
			visit(name, typ)
			return true
		}); err != nil || seen < keys {
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

// TestWalkCopiesLittle: while a shard is locked, a walk copies no long names, and a bounded number
// of others, whatever COUNT is. If names are long, its step ends early.
func TestWalkCopiesLittle(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	const long, short = 40, 400
	for i := range long {
		k := h.s.Key(1, fmt.Appendf(nil, "{same}%d%s", i, strings.Repeat("x", 200<<10)))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.Deadline{}, Event{}) }, k)
	}
	for i := range short {
		k := h.s.Key(2, fmt.Appendf(nil, "{same}%d%s", i, strings.Repeat("x", 1500)))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.Deadline{}, Event{}) }, k)
	}
	for _, place := range []string{"in memory", "on disk"} {
		for db, n := range map[int]int{1: long, 2: short} {
			w := walk{View: h.s.View, untimed: true}
			seen, size, most := 0, 0, 0
			for cursor, more := uint64(0), true; more; more = cursor != 0 {
				var err error
				before := size
				cursor, err = w.scan(db, cursor, 1<<30, func(name []byte, _ object.Type) {
					seen, size = seen+1, size+len(name)
				})
				if err != nil {
					t.Fatal(err)
				}
				most = max(most, size-before)
			}
			if seen != n {
				t.Errorf("%s: %d keys of %d", place, seen, n)
			}
			if copied := cap(w.names); copied > 3*walkBytes {
				t.Errorf("%s: %d bytes of names were copied at once", place, copied)
			}
			if most > listBytes+walkBytes+2*200<<10 {
				t.Errorf("%s: a step visited %d bytes of names", place, most)
			}
		}
		h.saved()
		h.evict()
	}
}

// TestWalkReadsOnce: however large COUNT is, a walk reads little more of a slot than it visits.
func TestWalkReadsOnce(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	const keys = 10_000
	var some []Key
	for i := range keys {
		k := h.s.Key(0, fmt.Appendf(nil, "{same}%d", i))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.Deadline{}, Event{}) }, k)
		if i%2 == 0 {
			some = append(some, k)
		}
	}
	h.saved()
	h.evict()
	h.load(some)
	cost := func(count int) uint64 {
		before, seen := allocated(), 0
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			var err error
			if cursor, err = h.s.Scan(0, cursor, count, func([]byte, object.Type) {
				seen++
			}); err != nil {
				t.Fatal(err)
			}
		}
		if seen != keys {
			t.Fatalf("%d keys of %d", seen, keys)
		}
		return allocated() - before
	}
	if small, large := cost(500), cost(keys); large > 2*small {
		t.Errorf("%d bytes for all keys at once, %d in small steps", large, small)
	}
}

// allocated returns how many bytes the process has allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
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
