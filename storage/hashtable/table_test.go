package hashtable

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "keyp/internal/testkit/setup"
)

// TestTable compares the table with a map, with hashes that share long prefixes, so that buckets
// split deep. It also walks the whole table in hash order.
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

// A scan visits every cell once, in buckets of each size, even if hashes are close together or at
// the end of a bucket.
func TestScan(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tab, hashes, next := Table{Tight: rapid.Bool().Draw(rt, "tight")}, map[uint32]uint64{},
			uint32(0)
		find := func(ref uint32) *Cell {
			c, _ := tab.Find(hashes[ref], func(c Cell) bool { return c.Ref() == ref })
			return c
		}
		if n := rapid.IntRange(0, 2000).Draw(rt, "reserved"); n > 0 {
			tab.Reserve(n)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"insert": func(rt *rapid.T) {
				from := rapid.SampledFrom([]uint64{0, 1 << 63, 1<<64 - 1<<58,
					rapid.Uint64().Draw(rt, "from")}).Draw(rt, "first")
				by := rapid.SampledFrom([]uint64{0, 1 << HashShift, 1 << 52,
					0x9e3779b97f4a7c15}).Draw(rt, "by")
				most := 1000
				if by == 0 {
					most = 20
				}
				for range rapid.IntRange(1, most).Draw(rt, "n") {
					tab.Insert(from, NewCell(from, next, 0))
					hashes[next] = from
					next++
					from += by
				}
			},
			"remove": func(rt *rapid.T) {
				first, by := rapid.Uint32Range(0, next).Draw(rt, "first"),
					rapid.SampledFrom([]uint32{1, 2, 7}).Draw(rt, "by")
				for range rapid.IntRange(1, 2000).Draw(rt, "n") {
					if _, ok := hashes[first]; ok {
						tab.Remove(find(first))
						delete(hashes, first)
					}
					first += by
				}
			},
			"change": func(rt *rapid.T) {
				ref := rapid.Uint32Range(0, next).Draw(rt, "ref")
				if hash, ok := hashes[ref]; ok {
					*find(ref) = NewCell(hash, next, Dirty)
					delete(hashes, ref)
					hashes[next] = hash
					next++
				}
			},
			"": func(rt *rapid.T) { checkTable(rt, &tab, hashes) },
		})
	})
}

func checkTable(rt *rapid.T, tab *Table, hashes map[uint32]uint64) {
	for ref, hash := range hashes {
		if _, ok := tab.Find(hash, func(c Cell) bool { return c.Ref() == ref }); !ok {
			rt.Fatalf("%d with the hash %x is not found", ref, hash)
		}
	}
	seen := map[uint32]bool{}
	cursor, ended := uint32(0), false
	for range 100_000 {
		from := cursor
		cursor = tab.Scan(cursor, 1000, func(c Cell) {
			hash, ok := hashes[c.Ref()]
			if !ok || seen[c.Ref()] || c.Prefix() != uint32(hash>>HashShift) || c.Prefix() < from {
				rt.Fatalf("the scan visits %d, which is not there or was seen", c.Ref())
			}
			seen[c.Ref()] = true
		})
		if cursor == 0 {
			ended = true
			break
		}
	}
	if !ended || len(seen) != len(hashes) || tab.Len() != len(hashes) {
		rt.Fatalf("the scan visits %d of %d, counted as %d", len(seen), len(hashes), tab.Len())
	}
	if next := tab.Scan(1<<32-1, 1, func(Cell) {}); next>>HashBits != 0 {
		rt.Fatalf("after the last prefix comes %x", next)
	}
	cells, buckets := len(tab.only.cells), tab.dir
	for i, b := range buckets {
		if i > 0 && b == buckets[i-1] {
			continue
		}
		cells += len(b.cells)
		if len(b.cells) <= BucketCells && !fits(b.used, len(b.cells)) {
			rt.Fatalf("a bucket has %d of %d cells in use", b.used, len(b.cells))
		}
	}
	if int(tab.cells) != cells || tab.Bytes() < 8*cells {
		rt.Fatalf("%d cells are counted, of %d, in %d bytes", tab.cells, cells, tab.Bytes())
	}
}

// A large tight table never has more than 1.8 cells for each entry. After most entries are removed
// it has few cells.
func TestFill(t *testing.T) {
	tab := Table{Tight: true}
	hash := func(i int) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 }
	const n = 100_000
	for i := range n {
		tab.Insert(hash(i), NewCell(hash(i), uint32(i), 0))
		if tab.Len() >= 10_000 && int(tab.cells)*10 > tab.Len()*18 {
			t.Fatalf("%d cells for %d entries", tab.cells, tab.Len())
		}
	}
	for i := range n - 100 {
		c, _ := tab.Find(hash(i), func(c Cell) bool { return c.Ref() == uint32(i) })
		tab.Remove(c)
	}
	if most := len(tab.Starts()) * 2 * firstCells; int(tab.cells) > most {
		t.Errorf("%d cells for %d entries, wanted %d at most", tab.cells, tab.Len(), most)
	}
}
