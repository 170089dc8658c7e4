package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"keyp/ttl"
)

// This file tests the removal of expired keys while the clock steps back or keys leave memory.

const hour = 3_600_000 // in ms

var eventSet = Event{EventString, "set"}

// stepTo sets the clock, and waits until the store's time follows it.
func (h *harness) stepTo(ms int64) {
	h.clock.Set(ms)
	h.s.Manual().AwaitClock()
}

// TestReapAfterStepBack: the reaper reads the clock. Before it reaches a shard or diskDeadlines,
// the clock steps back, and keys are set that are due between the two times. These keys stay.
func TestReapAfterStepBack(t *testing.T) {
	for _, stored := range []bool{false, true} {
		t.Run(fmt.Sprint("stored ", stored), func(t *testing.T) {
			h := newHarness(t)
			defer func() { _ = h.s.Close(false) }()
			names := map[name]bool{}
			start := h.clock.Now()
			late := start + hour
			h.stepTo(late)
			h.s.Reap()
			h.stepTo(start)
			for i := range 40 {
				k, n := h.s.Key(0, fmt.Appendf(nil, "k%d", i)), name{0, fmt.Sprint("k", i)}
				deadline := start + 1000 + int64(i)
				h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(deadline), eventSet) }, k)
				names[n], h.model[n] = true, value{data: "v", deadline: deadline}
			}
			h.saved()
			if stored {
				h.evict()
			}
			h.reapAt(late)
			h.verify(names)
			h.clock.Advance(1020 * time.Millisecond)
			h.reapAt(h.clock.Now())
			h.verify(names)
			if n, _ := h.s.Count(0); n != 19 {
				t.Errorf("%d keys are counted, of which 19 are left", n)
			}
			h.model = h.model.live(h.clock.Now())
			h.commit()
			h.clock.Set(start + 500) // what is gone stays gone
			h.crash(rand.New(rand.NewPCG(1, 1)), names)
			if n, _ := h.s.Count(0); n != 19 {
				t.Errorf("%d keys are counted after a crash, of which 19 are left", n)
			}
		})
	}
}

// reapAt runs a round of the reaper that has read the clock at now.
func (h *harness) reapAt(now int64) {
	for more := true; more; {
		_, more = h.s.diskDeadlines.ReapDue(now, time.Second)
	}
	for _, sh := range h.s.shards {
		(&source{sh: sh, t: h.s.NewTxn()}).ReapDue(now, time.Second)
	}
}

// TestStepBackBesideEviction: after a step back of the clock all due keys are removed, while due
// keys also leave memory. Those keys are gone afterwards, too.
func TestStepBackBesideEviction(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	start := h.clock.Now()
	for i := range 100 {
		k := h.s.Key(0, fmt.Appendf(nil, "k%d", i))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(start+1000), eventSet) }, k)
	}
	h.saved()
	h.clock.Advance(2 * time.Second)
	h.s.Listen(func(Happened) { // one of the first shard's has gone, which is locked
		h.s.Listen(func(Happened) {})
		for _, sh := range h.s.shards[1:] {
			for i := range h.s.slotsPerShard {
				h.s.house.evictSlot(sh, 0, i)
			}
		}
	})
	h.s.now()
	h.stepTo(start)
	if n, expires := h.s.Count(0); n != 0 || expires != 0 {
		t.Errorf("%d keys, %d with a deadline, are counted when all have been due", n, expires)
	}
	h.commit()
	h.crash(rand.New(rand.NewPCG(1, 1)), map[name]bool{})
	if n, expires := h.s.Count(0); n != 0 || expires != 0 {
		t.Errorf("%d keys, %d with a deadline, are counted after a crash", n, expires)
	}
}

// TestCutWhileRefilling: evictions cut diskDeadlines while it reads further deadlines. No deadline
// is left out.
func TestCutWhileRefilling(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	start := h.clock.Now()
	const n = 60
	for i := range n {
		k := h.s.Key(0, fmt.Appendf(nil, "k%d", i))
		h.do(func(x *Txn) { x.SetString(k, []byte("v"), ttl.At(start+1000+int64(i)), eventSet) }, k)
	}
	h.saved()
	w := &h.s.diskDeadlines
	w.mu.Lock()
	// This is the state after diskDeadlines has read to there while all keys were in memory.
	w.mu.end = ttl.NamedEntry{Deadline: start + 1050}
	from := w.mu.end
	w.mu.refilling = true
	w.mu.Unlock()
	entries, end, err := w.read(from)
	if err != nil {
		t.Fatal(err)
	}
	h.evict()
	w.join(from, entries, end, nil)
	h.check()
	h.clock.Advance(2 * time.Second)
	if gone := h.s.Reap(); gone != n {
		t.Errorf("%d of %d keys went", gone, n)
	}
}
