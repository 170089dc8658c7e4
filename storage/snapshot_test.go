package storage

import (
	"fmt"
	"testing"

	"keyp/ttl"
)

// TestPinnedDeadlines: a value is pinned while a task reads it on another goroutine. Until the task
// ends, the value does not change, even if its elements become due or its key is deleted, moved or
// replaced. After that, due elements are removed.
func TestPinnedDeadlines(t *testing.T) {
	const elements = 500
	for meanwhile, do := range map[string]func(h *harness, k Key){
		"nothing":  func(*harness, Key) {},
		"reaping":  func(h *harness, _ Key) { h.s.Reap() },
		"deletion": func(h *harness, k Key) { h.do(func(t *Txn) { t.Delete(k, Deleted) }, k) },
		"emptied":  func(h *harness, _ Key) { h.doAll(func(t *Txn) { t.FlushDB(0) }) },
		"swapped":  func(h *harness, _ Key) { h.doAll(func(t *Txn) { t.SwapDB(0, 1) }) },
		"written": func(h *harness, k Key) {
			if err := h.s.Checkpoint(); err != nil {
				h.t.Fatal(err)
			}
			h.s.Manual().Evict(1)
			h.copyObjects(1)
		},
	} {
		t.Run(meanwhile, func(t *testing.T) {
			h := newHarness(t)
			defer func() { _ = h.s.Close(false) }()
			k, now := h.s.Key(0, []byte("k")), h.clock.Now()
			h.hash(k, func(_ *Txn, v *Hash) {
				for i := range elements {
					var deadline int64
					if i%2 == 0 {
						deadline = now + 1000 + int64(i)
					}
					v.Set(fmt.Appendf(nil, "field%d", i),
						[]byte("a value, so that all do not stand inline"), ttl.At(deadline))
				}
			})
			var pins Pins
			first, second := h.s.NewTxn(), h.s.NewTxn()
			for _, to := range []*Txn{first, second} {
				if !h.s.Begin(h.txn, []Key{k}) || pins.Overdue(h.txn, []Key{k}, true) {
					t.Fatal("the key cannot be taken")
				}
				pins.Pin(h.txn, []Key{k}, to)
			}
			do(h, k)
			h.check()
			h.clock.Advance(2000 * 1e6)
			h.s.Reap()
			h.check()
			other := h.s.Key(1, []byte("k"))
			h.doAll(func(t *Txn) {
				if !pins.Overdue(t, nil, true) {
					h.t.Error("what is pinned is not said to be overdue")
				}
				if want := meanwhile == "nothing" || meanwhile == "reaping" ||
					meanwhile == "written"; pins.Overdue(t, []Key{k}, false) != want {
					h.t.Errorf("it is the key's: %v", !want)
				}
				if pins.Overdue(t, []Key{other}, false) != (meanwhile == "swapped") {
					h.t.Error("it is where it is not, or not where it is")
				}
			})
			for _, t2 := range []*Txn{first, second} {
				v, err := t2.Hash(k)
				if err != nil || v.Value().Len() != elements {
					t.Errorf("aside there are %d elements, %v", v.Value().Len(), err)
				}
				pins.Unpin(t2)
			}
			if pins.Any() || pins.timed != 0 {
				t.Errorf("something is pinned: %+v", pins)
			}
			h.check()
			h.s.Reap()
			h.check()
			want := elements / 2
			switch meanwhile {
			case "deletion", "emptied":
				want = 0
			case "swapped":
				k = other
			}
			h.hash(k, func(_ *Txn, v *Hash) {
				if v.Value().Len() != want {
					h.t.Errorf("%d elements are left, not %d", v.Value().Len(), want)
				}
			})
		})
	}
}
