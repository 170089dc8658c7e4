package storage

import (
	"fmt"
	"testing"
	"time"

	"keyp/ttl"
)

// TestReapPostponed: the deadlines of keys move later again and again, and the expiration index
// postpones most of these moves. The keys exist until their last deadline, and no longer.
func TestReapPostponed(t *testing.T) {
	const count = 300
	h := newHarness(t)
	var keys [count]Key
	for i := range keys {
		keys[i] = h.s.Key(0, fmt.Appendf(nil, "{tag}%d", i))
	}
	now := h.clock.Now()
	put := func(ms func(i int) int64) {
		for i, k := range keys {
			h.do(func(x *Txn) {
				x.SetString(k, []byte("value"), ttl.At(now+ms(i)), Event{EventString, "set"})
			}, k)
		}
	}
	put(func(int) int64 { return 100 })
	for step := range int64(3) {
		put(func(i int) int64 { return 1000 + step*1000 + int64(i) })
	}
	p := h.s.part(keys[0])
	if n := p.index.Postponed(); n != count {
		t.Fatalf("%d moves of %d are postponed", n, count)
	}
	h.clock.Advance(2900 * time.Millisecond)
	if n := h.s.Reap(); n != 0 {
		t.Fatalf("%d keys are removed before their deadlines", n)
	}
	h.check()
	for left := count; left > 0; left-- {
		h.clock.Advance(time.Duration(now+3000+int64(count-left)-h.clock.Now()) * time.Millisecond)
		if h.s.Reap(); p.index.Len() != left-1 {
			t.Fatalf("%d keys are left at %d ms, want %d", p.index.Len(), h.clock.Now()-now, left-1)
		}
	}
	h.check()
}
