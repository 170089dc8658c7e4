package keytable

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "keyp/internal/testkit/setup"
)

// TestTable compares the table with a map, over hashes that share long prefixes, so
// that buckets split deep, and walks it to the end in hash order.
func TestTable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var tab Table
		model := map[uint32]uint64{} // by ref
		spread := rapid.SampledFrom([]uint{0, 3, 12}).Draw(rt, "spread")
		next := uint32(1)
		find := func(ref uint32, hash uint64) *Cell {
			c, _ := tab.Find(hash, func(c Cell) bool { return c.Ref() == ref })
			return c
		}
		for range rapid.IntRange(1, 40).Draw(rt, "bursts") {
			if len(model) > 0 && rapid.IntRange(0, 2).Draw(rt, "op") == 0 {
				n := 0
				for ref, hash := range model {
					tab.Remove(find(ref, hash))
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
				tab.Insert(hash, NewCell(hash, next, 0))
				model[next] = hash
				next++
			}
		}
		if tab.Len() != len(model) {
			rt.Fatalf("%d cells, want %d", tab.Len(), len(model))
		}
		for ref, hash := range model {
			if c := find(ref, hash); c == nil || c.Ref() != ref {
				rt.Fatalf("cell %d is not found", ref)
			}
		}
		var order []uint32
		for from, done := uint32(0), false; !done; {
			var bucket []uint32
			from, done = tab.WalkBucket(from, func(c *Cell) { bucket = append(bucket, c.Prefix()) })
			slices.Sort(bucket)
			order = append(order, bucket...)
		}
		if len(order) != len(model) || !slices.IsSorted(order) {
			rt.Fatalf("the walk gave %d cells of %d, sorted %t", len(order), len(model),
				slices.IsSorted(order))
		}
	})
}
