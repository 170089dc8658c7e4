package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"keyp/storage/clockguard"
	"keyp/ttl"
)

// TestHalfReapedCounts: a crash happens while some of the keys that are due at one time have been
// removed and others have not. After the restart the store counts its keys correctly, and has none
// when all are gone.
func TestHalfReapedCounts(t *testing.T) {
	const count = 20
	ms := func(n int) int64 { return int64(n) }
	for title, c := range map[string]struct {
		ttl    func(i int) int64 // of key i, in ms
		onDisk func(i int) bool
		window bool // diskDeadlines removes one, instead of the shard
	}{
		"one deadline": {ttl: func(int) int64 {
			return 100
		}, onDisk: func(int) bool { return false }},
		"many deadlines":       {ttl: ms, onDisk: func(int) bool { return false }},
		"earlier ones on disk": {ttl: ms, onDisk: func(i int) bool { return i < count/2 }},
		"later ones on disk":   {ttl: ms, onDisk: func(i int) bool { return i >= count/2 }},
		"all on disk": {ttl: ms, onDisk: func(int) bool {
			return true
		}, window: true},
		"window, later ones on disk": {ttl: ms, onDisk: func(i int) bool {
			return i >= count/2
		}, window: true},
		"window, earlier ones on disk": {ttl: ms, onDisk: func(i int) bool {
			return i < count/2
		}, window: true},
		"window, one deadline": {ttl: func(int) int64 {
			return 100
		}, onDisk: func(i int) bool { return i%2 == 0 }, window: true},
	} {
		t.Run(title, func(t *testing.T) {
			h := newHarness(t)
			defer func() { h.s.Close(false) }()
			names, at := map[name]bool{}, h.clock.Now()
			set := func(stored bool) {
				for i := range count {
					k := h.s.Key(0, fmt.Appendf(nil, "{tag}%d", i))
					if c.onDisk(i) == stored {
						h.do(func(x *Txn) {
							x.SetString(k, []byte("value"), ttl.At(at+1+c.ttl(i)),
								Event{EventString, "set"})
						}, k)
					}
				}
			}
			set(true)
			h.saved()
			h.evict()
			set(false)
			h.commit()
			h.clock.Advance(time.Second)
			sh := h.s.shards[h.s.shardOf(h.s.Key(0, []byte("{tag}")).Slot)]
			for range 3 {
				if c.window {
					h.s.diskDeadlines.reapDue(h.s.now(), 0, true)
				} else {
					(&source{sh: sh, t: h.s.NewTxn()}).ReapDue(h.s.now(), 0)
				}
			}
			if n, _ := h.s.Count(0); n != count-3 {
				t.Fatalf("%d keys are counted, want %d", n, count-3)
			}
			h.commit()
			h.crash(rand.New(rand.NewPCG(1, 1)), names)
			h.check()
			h.s.Reap()
			h.check()
			if n, expires := h.s.Count(0); n != 0 || expires != 0 {
				t.Errorf("%d keys, %d with a deadline, are counted when all are gone", n, expires)
			}
			h.commit()
			h.reopen()
			if n, expires := h.s.Count(0); n != 0 || expires != 0 {
				t.Errorf("after a restart %d keys, %d with a deadline, are counted", n, expires)
			}
		})
	}
}

// TestStepOfASecond: if the clock is set back by a second or less, the store waits for it. More
// than that counts as a step back.
func TestStepOfASecond(t *testing.T) {
	for _, back := range []int64{clockguard.StepTolerance, clockguard.StepTolerance + 1} {
		h := newHarness(t)
		h.clock.Set(h.s.now() - back)
		h.s.now()
		h.s.background.Wait()
		if stepped := h.s.Stats().ClockSteps > 0; stepped != (back > clockguard.StepTolerance) {
			t.Errorf("%d ms back: the store handles a step: %v", back, stepped)
		}
	}
}
