package storage

import (
	"fmt"
	"testing"
	"time"

	"keyp/ttl"
)

// TestWindowOfOneDeadline: diskDeadlines reads the deadlines of keys on disk in parts of bounded
// size, even if very many keys have the same deadline. It misses none of them.
func TestWindowOfOneDeadline(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	deadline := h.clock.Now() + 1000
	const n = 500
	for i := range n {
		k := h.s.Key(i%3, fmt.Appendf(nil, "k%d", i))
		h.do(func(x *Txn) {
			x.SetString(k, []byte("v"), ttl.At(deadline), Event{EventString, "set"})
		}, k)
		if i == n/2 {
			h.s.Reap() // diskDeadlines looks ahead, past the deadline
		}
	}
	h.commit()
	h.saved()
	for rounds := 0; rounds < 1000 && h.s.Stats().Resident > 0; rounds++ {
		// Slots are chosen at random.
		h.s.house.evict(1 << 30)
	}
	if st := h.s.Stats(); st.Evictions != n || st.Resident != 0 {
		t.Fatalf("%d of %d left memory, %d are there", st.Evictions, n, st.Resident)
	}
	if got := h.s.diskDeadlines.mu.idx.Len(); got > 2*h.s.bounds.deadlinesAtOnce {
		t.Errorf("diskDeadlines holds %d deadlines, more than %d", got,
			2*h.s.bounds.deadlinesAtOnce)
	}
	h.check()
	h.clock.Advance(time.Second - time.Millisecond)
	if gone := h.s.Reap(); gone != 0 {
		t.Errorf("%d keys went before their deadline", gone)
	}
	h.clock.Advance(time.Millisecond)
	if gone := h.s.Reap(); gone != n {
		t.Errorf("%d of %d keys went at their deadline", gone, n)
	}
	h.check()
}
