package storage

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTable compares the table with a map, over hashes that share long prefixes, so
// that buckets split deep, and walks it to the end in hash order.
func TestTable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var tab table
		model := map[uint32]uint64{} // by ref
		spread := rapid.SampledFrom([]uint{0, 3, 12}).Draw(rt, "spread")
		next := uint32(1)
		find := func(ref uint32, hash uint64) *cell {
			c, _ := tab.find(hash, func(c cell) bool { return c.ref() == ref })
			return c
		}
		for range rapid.IntRange(1, 40).Draw(rt, "bursts") {
			if len(model) > 0 && rapid.IntRange(0, 2).Draw(rt, "op") == 0 {
				n := 0
				for ref, hash := range model {
					tab.remove(find(ref, hash))
					delete(model, ref)
					if n++; n == 150 {
						break
					}
				}
				continue
			}
			seed := rapid.Uint64().Draw(rt, "hash")
			for i := range uint64(200) {
				hash := (seed + i*0x9e3779b97f4a7c15) >> spread
				tab.insert(hash, newCell(hash, next, 0))
				model[next] = hash
				next++
			}
		}
		if tab.used != len(model) {
			rt.Fatalf("%d cells, want %d", tab.used, len(model))
		}
		for ref, hash := range model {
			if c := find(ref, hash); c == nil || c.ref() != ref {
				rt.Fatalf("cell %d is not found", ref)
			}
		}
		var order []uint32
		for from, done := uint32(0), false; !done; {
			var bucket []uint32
			from, done = tab.walkBucket(from, func(c *cell) { bucket = append(bucket, c.prefix()) })
			slices.Sort(bucket)
			order = append(order, bucket...)
		}
		if len(order) != len(model) || !slices.IsSorted(order) {
			rt.Fatalf("the walk gave %d cells of %d, sorted %t", len(order), len(model),
				slices.IsSorted(order))
		}
	})
}

// TestSlabs compares blocks with a map, and sees that empty chunks are given back.
func TestSlabs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newSlabs()
		model := map[uint32]string{}
		defer s.drop()
		for range rapid.IntRange(1, 30).Draw(rt, "bursts") {
			size := rapid.IntRange(0, maxBlock-blockHeader-3).Draw(rt, "size")
			if len(model) > 0 && rapid.Bool().Draw(rt, "free") {
				n := 0
				for ref := range model {
					s.release(ref)
					delete(model, ref)
					if n++; n == 60 {
						break
					}
				}
				continue
			}
			for i := range 50 {
				value := make([]byte, size)
				for j := range value {
					value[j] = byte(i + j)
				}
				ref, b := s.alloc(blockHeader + 3 + size)
				b.setKey([]byte("key"))
				b.setValue(value)
				b.setDeadline(int64(i) << 40)
				if _, taken := model[ref]; taken {
					rt.Fatalf("ref %d is given twice", ref)
				}
				model[ref] = string(value)
			}
		}
		for ref, want := range model {
			if b := s.at(ref); string(b.key()) != "key" || string(b.value()) != want {
				rt.Fatalf("block %d changed", ref)
			}
		}
		for ref := range model {
			s.release(ref)
		}
		if s.live != 0 || s.inChunks != 0 {
			rt.Fatalf("%d bytes live, %d held, with no block", s.live, s.inChunks)
		}
	})
}
