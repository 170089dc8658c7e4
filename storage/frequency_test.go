package storage

import (
	"testing"
	"time"

	"keyp/ttl"
)

// TestFrequentKeysStay: if accesses are counted, the more frequently used one of two keys of a slot
// stays in memory. If they are not counted, the more recently used key stays.
func TestFrequentKeysStay(t *testing.T) {
	for _, counted := range []bool{true, false} {
		h := newHarness(t)
		defer func() { _ = h.s.Close(false) }()
		if counted {
			h.s.SetFrequency(&Frequency{LogFactor: 1, Decay: 10})
		}
		often, lately := h.s.Key(0, []byte("{slot}often")), h.s.Key(0, []byte("{slot}lately"))
		for _, k := range []Key{often, lately} {
			h.do(func(x *Txn) {
				x.SetString(k, []byte("v"), ttl.Deadline{}, Event{EventString, "set"})
			}, k)
		}
		for range 1000 {
			h.do(func(x *Txn) { x.Get(often) }, often)
		}
		h.clock.Advance(5 * time.Minute)
		h.do(func(x *Txn) { x.Get(lately) }, lately)
		h.commit()
		h.saved()
		shard := h.s.shardOf(often.Slot)
		if h.s.house.evictSlot(h.s.shards[shard], 0, int(often.Slot)%h.s.slotsPerShard) == 0 {
			t.Fatal("nothing left memory")
		}
		if h.s.resident(often) != counted || h.s.resident(lately) == counted {
			t.Errorf("counted %v: in memory are often %v, lately %v", counted, h.s.resident(often),
				h.s.resident(lately))
		}
		h.check()
	}
}

// TestFrequencyCounts: the count rises more slowly the higher it is, falls by the minute, and never
// exceeds its bits.
func TestFrequencyCounts(t *testing.T) {
	f := &Frequency{LogFactor: 0, Decay: 2}
	const minute = 60_000
	var now int64 = 1_700_000_000_000
	word := frequencyWord(firstCount, now)
	for range 1000 {
		word = f.accessed(word, now)
	}
	if n := f.count(word, now); n != mostCount {
		t.Errorf("after a thousand accesses that all count: %d", n)
	}
	if n := f.count(word, now+21*minute); n != mostCount-10 {
		t.Errorf("21 minutes later: %d", n)
	}
	if n := f.count(word, now+100_000*minute); n != 0 {
		t.Errorf("months later: %d", n)
	}
	f.LogFactor, f.Decay = 10, 0
	word = frequencyWord(firstCount, now)
	for range 100_000 {
		now++
		word = f.accessed(word, now)
	}
	// The expected number of accesses to get from 5 to n is the sum of 10*i+1 for i < n-5.
	if n := f.count(word, now+100_000*minute); n < 100 || n > 190 {
		t.Errorf("after 100,000 accesses of which few count: %d", n)
	}
}
