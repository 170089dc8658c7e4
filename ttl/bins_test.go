package ttl

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// spanOf counts the deadlines in a span, and checks that s agrees with the number.
func spanOf(t *rapid.T, deadlines []int64, from, through int64, s Span) (n int64) {
	t.Helper()
	for _, d := range deadlines {
		if from <= d && d <= through {
			n++
		}
	}
	if s.Low > n || n > s.High || s.Estimate < s.Low || s.Estimate > s.High {
		t.Fatalf("[%d, %d] has %d of %v, and counts %+v", from, through, n, deadlines, s)
	}
	return n
}

// Counts agree with the deadlines that were added and not removed. They are exact while there are
// few deadlines, and when the span cuts no bin.
func TestBinsAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newBins(rapid.SampledFrom([]int{2, 5, 40, maxBins}).Draw(t, "max"),
			rapid.SampledFrom([]int{1, 2, 8}).Draw(t, "least"))
		exact := c.max == maxBins && c.least == 1
		var all []int64
		wide := rapid.SampledFrom([]int64{10, 100, math.MaxInt64}).Draw(t, "wide")
		aTime := rapid.OneOf(rapid.Int64Range(1, wide), rapid.Int64Range(1, 20))
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				for _, d := range rapid.SliceOfN(aTime, 1, 30).Draw(t, "deadlines") {
					c.Add(d)
					all = append(all, d)
				}
			},
			"in order": func(t *rapid.T) {
				d := rapid.Int64Range(1, wide/2).Draw(t, "first")
				for range rapid.IntRange(1, 100).Draw(t, "n") {
					c.Add(d)
					all = append(all, d)
					d += rapid.Int64Range(0, 2).Draw(t, "step")
				}
			},
			"remove": func(t *rapid.T) {
				for range min(len(all), rapid.IntRange(1, 40).Draw(t, "n")) {
					i := rapid.IntRange(0, len(all)-1).Draw(t, "i")
					if !c.Remove(all[i]) {
						t.Fatalf("%d is not there to be removed", all[i])
					}
					all = slices.Delete(all, i, i+1)
				}
			},
			"": func(t *rapid.T) {
				if c.Len() != len(all) || len(c.n) > c.max {
					t.Fatalf("%d deadlines of %d in %d bins", c.Len(), len(all), len(c.n))
				}
				last, ok := c.Last()
				if ok != (len(all) > 0) || ok && last < slices.Max(all) {
					t.Fatalf("the last is %d, %v of %v", last, ok, all)
				}
				if whole := c.Count(math.MinInt64, math.MaxInt64,
					nil); whole != Exactly(int64(len(all))) {
					t.Fatalf("all are %+v of %d", whole, len(all))
				}
				from, through := aTime.Draw(t, "from"), aTime.Draw(t, "through")
				s := c.Count(from, through, nil)
				if spanOf(t, all, from, through, s); exact && !s.Exact() {
					t.Fatalf("each has a bin of its own, but [%d, %d] counts %+v",
						from, through, s)
				}
			},
		})
	})
}

// An index counts exactly while it may look at the entries. It looks only at those of its span, and
// its bins agree with them.
func TestIndexCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := indexOfDegree(2)
		x.bins = newBins(rapid.SampledFrom([]int{2, 6, 50}).Draw(t, "max"),
			rapid.SampledFrom([]int{2, 7, 30}).Draw(t, "least"))
		at := map[uint64]int64{}
		wide := rapid.SampledFrom([]int64{5, 100, math.MaxInt64}).Draw(t, "wide")
		aTime := rapid.OneOf(rapid.Int64Range(1, wide), rapid.Int64Range(1, 20))
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				for range rapid.IntRange(1, 50).Draw(t, "n") {
					id, d := rapid.Uint64Range(1, 200).Draw(t, "id"), aTime.Draw(t, "deadline")
					x.Set(id, at[id], d)
					at[id] = d
				}
			},
			"remove": func(t *rapid.T) {
				for range rapid.IntRange(1, 50).Draw(t, "n") {
					id := rapid.Uint64Range(1, 200).Draw(t, "id")
					x.Set(id, at[id], None)
					delete(at, id)
				}
			},
			"pop": func(t *rapid.T) {
				now := aTime.Draw(t, "now")
				for e, ok := x.PopDue(now); ok; e, ok = x.PopDue(now) {
					delete(at, e.ID)
				}
			},
			"clear": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "rarely") == 0 {
					x.Clear()
					clear(at)
				}
			},
			"": func(t *rapid.T) {
				if err := x.CheckBins(); err != nil {
					t.Fatal(err)
				}
				var all []int64
				for _, d := range at {
					all = append(all, d)
				}
				from, through := aTime.Draw(t, "from"), aTime.Draw(t, "through")
				may := rapid.IntRange(0, 100).Draw(t, "most")
				most := may
				s := x.Count(from, through, &most)
				if n := spanOf(t, all, from, through, s); n <= int64(may) && may > 0 &&
					!s.Exact() && n < int64(may) {
					t.Fatalf("[%d, %d] has %d, may look at %d, and counts %+v", from,
						through, n, may, s)
				}
				if most < may-len(all)-1 {
					t.Fatalf("%d looks at %d entries", may-most, len(all))
				}
			},
		})
	})
}

// CheckBins notices a bin that disagrees with the entries.
func TestCheckBins(t *testing.T) {
	for name, spoil := range map[string]func(*Bins){
		"count":    func(c *Bins) { c.n[1]++ },
		"begin":    func(c *Bins) { c.first[0]++ },
		"end":      func(c *Bins) { c.last[len(c.n)-1]-- },
		"order":    func(c *Bins) { c.last[0] = c.first[1]; c.first[1]-- },
		"total":    func(c *Bins) { c.total++ },
		"one less": func(c *Bins) { c.first, c.last, c.n = c.first[:1], c.last[:1], c.n[:1] },
	} {
		x := NewCounted()
		for id := range uint64(1000) {
			x.Set(id, None, 2*int64(id)+1)
		}
		if err := x.CheckBins(); err != nil || len(x.bins.n) < 4 {
			t.Fatalf("%d bins (%v)", len(x.bins.n), err)
		}
		if spoil(x.bins); x.CheckBins() == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}

// However deadlines are spread, all bins have about the same number. So the bins that a span cuts
// have only a few of all deadlines.
func TestBinsAreEven(t *testing.T) {
	for name, deadline := range map[string]func(i int64) int64{
		"in order":       func(i int64) int64 { return i },
		"backwards":      func(i int64) int64 { return 1<<40 - i },
		"mixed":          func(i int64) int64 { return i*7919%(1<<20) + 1 },
		"an hour of all": func(i int64) int64 { return i%4*i*1_000_000 + i*7919%3_600_000 + 1 },
		"doubling":       func(i int64) int64 { return 1 + int64(1)<<(i%60) + i },
	} {
		x := NewCounted()
		const all = 1 << 18
		for i := range int64(all) {
			x.Set(uint64(i), None, deadline(i))
		}
		for i, n := range x.bins.n {
			if int(n) > 2*all/maxBins*4 && x.bins.first[i] != x.bins.last[i] {
				t.Errorf("%s: a bin from %d through %d has %d of %d deadlines", name,
					x.bins.first[i], x.bins.last[i], n, all)
				break
			}
		}
	}
}
