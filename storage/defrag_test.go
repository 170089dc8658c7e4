package storage

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// moveBlocks has some blocks of the slabs move, as defragment may at any time.
func (m *machine) moveBlocks(rt *rapid.T) {
	h := m.h
	if h.slabChunks > 0 {
		return // there may be no room for a copy
	}
	few := rapid.IntRange(1, 8).Draw(rt, "few")
	for _, sh := range h.s.shards {
		for _, p := range sh.mu.parts {
			if p == nil {
				continue
			}
			for at := range p.slabs.chunks {
				if p.slabs.chunks[at].page != nil {
					for _, ref := range p.slabs.refs(int32(at), few) {
						p.moveBlock(ref)
					}
				}
			}
		}
	}
}

// TestDefragment: slabs of which most keys have gone give nearly all of that memory back, and
// what is left of the keys, tombstones and deadlines included, is as it was.
func TestDefragment(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	const keys, batch = 24_000, 500
	names, rng := map[name]bool{}, rand.New(rand.NewPCG(1, 2))
	each := func(do func(x *Txn, k Key, n name)) {
		for from := 0; from < keys; from += batch {
			var some []Key
			for i := from; i < from+batch; i++ {
				some = append(some, h.s.Key(0, fmt.Appendf(nil, "{%d}key%d", i%40, i)))
			}
			h.do(func(x *Txn) {
				for _, k := range some {
					do(x, k, name{0, string(k.Name)})
				}
			}, some...)
			h.recent = nil
		}
	}
	each(func(x *Txn, k Key, n name) {
		v := value{data: strings.Repeat("x", 100+rng.IntN(3)*60), deadline: rng.Int64N(2) * (h.clock.Now() + hour + rng.Int64N(hour))}
		x.SetString(k, []byte(v.data), v.deadline, Event{})
		h.model[n], names[n] = v, true
	})
	h.saved()
	each(func(x *Txn, k Key, n name) { // tombstones are blocks, too
		if rng.IntN(5) > 0 {
			x.Delete(k, Event{})
			delete(h.model, n)
		}
	})
	sizes := func() (held, live int64) {
		for _, sh := range h.s.shards {
			for _, p := range sh.mu.parts {
				if p != nil {
					held, live = held+p.slabs.inChunks, live+p.slabs.live
				}
			}
		}
		return held, live
	}
	before, live := sizes()
	for _, sh := range h.s.shards {
		for h.s.house.defragStep(sh) {
		}
	}
	after, same := sizes()
	if same != live {
		t.Errorf("%d bytes are live, %d were", same, live)
	}
	// Of each of the five classes a shard may have gaps of nearly a chunk.
	if most := live + 5*chunkSize*int64(len(h.s.shards)); after > most || before < most+most/4 {
		t.Errorf("slabs of %d bytes, %d of them live, were made %d bytes: at most %d are right", before, live, after, most)
	}
	h.commit()
	h.verify(names)
	h.clock.Advance(90 * 60 * 1e9)
	h.s.Reap()
	h.model = h.model.live(h.clock.Now())
	h.commit()
	h.verify(names)
	h.reopen()
	h.verify(names)
}
