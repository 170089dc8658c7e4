package storage

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"keyp/storage/procmem"
	"keyp/storage/slab"
	"keyp/ttl"
)

// moveBlocks moves some blocks of the slabs, as defragment may do at any time.
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
			for at := range p.slabs.Count() {
				for _, ref := range p.slabs.Refs(int32(at), few) {
					p.moveBlock(ref)
				}
			}
		}
	}
}

// copyObjects replaces some objects with copies, as defragmentHeap may do at any time.
func (m *machine) copyObjects(rt *rapid.T) {
	m.h.copyObjects(rapid.IntRange(1, 4).Draw(rt, "oneIn"))
}

func (h *harness) copyObjects(oneIn int) {
	for _, sh := range h.s.shards {
		for _, p := range sh.mu.parts {
			if p == nil {
				continue
			}
			for ref := range p.objects.list {
				if ref%oneIn == 0 {
					p.copyObject(uint32(ref), h.s.now())
				}
			}
		}
	}
}

// object returns the object of a key.
func (h *harness) object(k Key) *Object {
	p := h.s.part(k)
	return p.objectOf(*p.find(p.slot(k), k))
}

// TestDefragmentHeap: when the gaps between objects are large, each object that may leave memory is
// copied once. It is copied again only if that has reduced the gaps, or if they have grown.
func TestDefragmentHeap(t *testing.T) {
	h := newHarness(t)
	defer func() { _ = h.s.Close(false) }()
	const keys, limit = 300, 64 << 20
	key := func(i int) Key { return h.s.Key(i%2, fmt.Appendf(nil, "hash:%d", i)) }
	field := strings.Repeat("x", 200)
	for i := range keys {
		h.hash(key(i), func(_ *Txn, v *Hash) {
			for f := range 1 + i%30 {
				v.Set(fmt.Appendf(nil, "%d", f), []byte(field),
					ttl.At(int64(i%2)*(h.clock.Now()+hour)))
			}
		})
	}
	h.hash(h.s.Key(0, []byte("large")), func(_ *Txn, v *Hash) {
		v.Set([]byte("f"), make([]byte, 2*defragBytes), ttl.Deadline{})
	})
	h.saved()
	h.hash(key(0), func(_ *Txn, v *Hash) { v.Set([]byte("new"), nil, ttl.Deadline{}) })
	objects := func() (all []*Object) {
		for i := range keys {
			all = append(all, h.object(key(i)))
		}
		return append(all, h.object(h.s.Key(0, []byte("large"))))
	}
	used, _ := h.s.measure()
	house, now := &h.s.house, time.Duration(1)
	process := procmem.Memory{Used: limit}
	left := int64(0) // how much has left memory lately
	// pass lets some time go by with gaps of the given number of bytes, and returns how many
	// objects are copied.
	pass := func(gaps int64) (copies int) {
		for range 3 {
			now += procmem.OverheadTime
			h.clock.Advance(procmem.OverheadTime)
			process.Cycles++
			process.Gaps = gaps
			house.overhead.Charge(process, now, used, limit)
		}
		before := objects()
		house.overhead.Left(left)
		house.defragmentHeap(process, limit)
		for house.heapDefrag.running {
			house.defragmentHeap(process, limit)
		}
		for i, o := range objects() {
			if o != before[i] {
				copies++
			}
		}
		h.check()
		return copies
	}
	const share = limit / heapGapShare
	for i, step := range []struct {
		gaps   int64
		copies int
	}{
		{share - 1, 0},
		{4 * share, keys - 1}, // all but one that has changed and a large one
		{2 * share, keys - 1}, // which helped
		{2 * share, 0},        // which did not
		{3*share + 1, keys - 1},
		{share / 2, 0},
		{2 * share, keys - 1},
	} {
		if got := pass(step.gaps); got != step.copies {
			t.Errorf("%d: with gaps of %d bytes %d objects are copied, not %d", i, step.gaps,
				got, step.copies)
		}
	}
	for _, pause := range []time.Duration{heapPause, 2 * heapPause} {
		if got := pass(2 * share); got != 0 {
			t.Errorf("%d objects are copied although that has just been useless", got)
		}
		h.clock.Advance(pause)
		now += pause
		if got := pass(2 * share); got != keys-1 {
			t.Errorf("%v after copying was useless %d objects are copied, not %d",
				pause, got, keys-1)
		}
	}
	left = share
	if got := pass(4 * share); got != 0 {
		t.Errorf("%d objects are copied while others leave memory", got)
	}
	left, process.Used = 0, limit/2
	if got := pass(limit / 4); got != 0 {
		t.Errorf("%d objects are copied although there is memory enough", got)
	}
	for i := range keys {
		h.hash(key(i), func(_ *Txn, v *Hash) {
			want := 1 + i%30
			if i == 0 {
				want++
			}
			if n := v.Value().Len(); n != want {
				t.Errorf("hash %d has %d fields, not %d", i, n, want)
			}
		})
	}
	if after, _ := h.s.measure(); after > used {
		t.Errorf("the copies take %d bytes, what was copied %d", after, used)
	}
}

// TestDefragment: slabs that have lost most of their keys give back nearly all of the free memory.
// The remaining keys, tombstones and deadlines are unchanged.
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
		v := value{data: strings.Repeat("x", 100+rng.IntN(3)*60),
			deadline: rng.Int64N(2) * (h.clock.Now() + hour + rng.Int64N(hour))}
		x.SetString(k, []byte(v.data), ttl.At(v.deadline), Event{})
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
					held, live = held+p.slabs.Held(), live+p.slabs.Bytes()
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
	// In each of the five classes a shard may have gaps of nearly a chunk.
	if most := live + 5*slab.ChunkSize*int64(len(h.s.shards)); after > most ||
		before < most+most/4 {
		t.Errorf("slabs of %d bytes, %d of them live, were made %d bytes: at most %d are right",
			before, live, after, most)
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
