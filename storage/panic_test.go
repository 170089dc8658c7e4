package storage

import (
	"fmt"
	"testing"

	"keyp/storage/object"
	"keyp/ttl"
)

// TestPanicUnlocks: after a panic in a callback of a walk no shard stays locked, whether keys are
// in memory or on disk.
func TestPanicUnlocks(t *testing.T) {
	h := newHarness(t)
	defer h.check()
	for i := range 10 {
		k := h.s.Key(0, fmt.Appendf(nil, "key:%d", i))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(h.clock.Now()+1000), Event{}) }, k)
	}
	for _, place := range []string{"in memory", "on disk"} {
		for name, walk := range map[string]func(){
			"Walk": func() {
				_ = h.s.Walk(0, func([]byte, object.Type) bool { panic("in a test") })
			},
			"Scan": func() {
				_, _ = h.s.Scan(0, 0, 100, func([]byte, object.Type) { panic("in a test") })
			},
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s of keys %s does not panic", name, place)
					}
				}()
				walk()
			}()
			for _, sh := range h.s.shards {
				if !sh.mu.tryLock() {
					t.Fatalf("%s of keys %s has left shard %d locked", name, place, sh.num)
				}
				sh.mu.Unlock()
			}
		}
		h.saved()
		h.evict()
	}
}
