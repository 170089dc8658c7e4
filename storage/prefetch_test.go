package storage

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"keyp/ttl"
)

// TestPrefetchChangesNothing prefetches names that exist, were removed, have expired, are only on
// disk or never existed. It uses any number of names, also in databases that were never written to.
func TestPrefetchChangesNothing(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	keys := make([]Key, 60)
	for i := range keys {
		keys[i] = h.s.Key(i%2, fmt.Appendf(nil, "k%d", i))
		h.do(func(x *Txn) {
			x.SetString(keys[i], make([]byte, i*200), ttl.At(x.Now()+1000*int64(1+i%3)),
				Event{EventString, "set"})
		}, keys[i])
	}
	h.commit()
	h.saved()
	for _, k := range keys[:20] {
		h.do(func(x *Txn) { x.Delete(k, Deleted) }, k)
	}
	h.commit()
	h.clock.Advance(time.Second)
	for range 100 { // a round looks at some slots only, and may find none of these keys
		if h.s.house.evict(100_000); h.s.Stats().Evictions > 0 {
			break
		}
	}
	before := h.s.Stats()
	if before.Evictions == 0 || before.Resident == 0 {
		t.Fatalf("%d evicted, %d in memory", before.Evictions, before.Resident)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		names := make([][]byte, rng.IntN(2*PrefetchKeys))
		for i := range names {
			names[i] = fmt.Appendf(nil, "k%d", rng.IntN(70))
		}
		h.s.Prefetch(rng.IntN(h.s.options.Databases), names)
	}
	after := h.s.Stats()
	after.FreeSpace = before.FreeSpace // of the real disk
	if after != before {
		t.Fatalf("%+v became %+v", before, after)
	}
	h.check()
}
