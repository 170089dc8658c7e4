package object

import (
	"testing"

	"pgregory.net/rapid"
)

// TestIndexModel: an index finds what was inserted and not removed, in buckets of each size, also
// where hashes lie close together and at the end of a bucket, and a scan comes by all of it.
func TestIndexModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x, hashes, next := newIndex(), map[uint32]uint32{}, uint32(0) // pos to hash
		x.tight = rapid.Bool().Draw(rt, "tight")
		rt.Repeat(map[string]func(*rapid.T){
			"insert": func(rt *rapid.T) {
				from := rapid.SampledFrom([]uint32{0, 1 << 31, 1<<32 - 1<<26,
					rapid.Uint32().Draw(rt, "from")}).Draw(rt, "first")
				by := rapid.SampledFrom([]uint32{0, 1, 1 << 20, 2654435761}).Draw(rt, "by")
				most := 1000
				if by == 0 {
					most = 20
				}
				for range rapid.IntRange(1, most).Draw(rt, "n") {
					x.insert(from, next)
					hashes[next] = from
					next++
					from += by
				}
			},
			"remove": func(rt *rapid.T) {
				first, by := rapid.Uint32Range(0, next).Draw(rt, "first"),
					rapid.SampledFrom([]uint32{1, 2, 7}).Draw(rt, "by")
				for range rapid.IntRange(1, 2000).Draw(rt, "n") {
					if hash, ok := hashes[first]; ok {
						x.remove(hash, first)
						delete(hashes, first)
					}
					first += by
				}
			},
			"rename": func(rt *rapid.T) {
				from := rapid.Uint32Range(0, next).Draw(rt, "from")
				if hash, ok := hashes[from]; ok {
					x.rename(hash, from, next)
					delete(hashes, from)
					hashes[next] = hash
					next++
				}
			},
			"": func(rt *rapid.T) { checkIndex(rt, &x, hashes) },
		})
	})
}

func checkIndex(rt *rapid.T, x *index, hashes map[uint32]uint32) {
	for pos, hash := range hashes {
		if _, ok := x.find(hash, func(at uint32) bool { return at == pos }); !ok {
			rt.Fatalf("%d with the hash %x is not found", pos, hash)
		}
	}
	seen := map[uint32]bool{}
	cursor, ended := uint32(0), false
	for range 100_000 {
		cursor = x.scan(cursor, 1000, func(pos uint32) {
			if _, ok := hashes[pos]; !ok || seen[pos] {
				rt.Fatalf("the scan comes by %d, which is not there or was seen", pos)
			}
			seen[pos] = true
		})
		if cursor == 0 {
			ended = true
			break
		}
	}
	if !ended || len(seen) != len(hashes) || x.n != len(hashes) {
		rt.Fatalf("the scan comes by %d of %d, counted as %d", len(seen), len(hashes), x.n)
	}
	for i, b := range x.dir {
		if i > 0 && b == x.dir[i-1] {
			continue
		}
		if len(b.cells) <= bucketCells && !fits(b.used, len(b.cells)) {
			rt.Fatalf("a bucket has %d of %d cells in use", b.used, len(b.cells))
		}
	}
}

// TestIndexFill: however many elements there are, a tight index that is large has no more than 1.8
// cells for each, and after most are gone no more than it may have then.
func TestIndexFill(t *testing.T) {
	x := newIndex()
	x.tight = true
	hash := func(i int) uint32 { return uint32(i) * 2654435761 }
	const n = 100_000
	for i := range n {
		x.insert(hash(i), uint32(i))
		if x.n >= 10_000 && x.cells*10 > x.n*18 {
			t.Fatalf("%d cells for %d elements", x.cells, x.n)
		}
	}
	for i := range n - 100 {
		x.remove(hash(i), uint32(i))
	}
	if x.cells > x.buckets*2*firstCells {
		t.Errorf("%d cells in %d buckets for %d elements", x.cells, x.buckets, x.n)
	}
}
