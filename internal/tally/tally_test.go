package tally

import (
	"slices"
	"testing"

	_ "keyp/internal/testkit/setup"
)

// Values count up to the bound that they are equal to, and those above all bounds in Count only.
func TestHistogram(t *testing.T) {
	h := New([]int64{10, 100, 1000})
	for _, v := range []int64{-5, 0, 10, 11, 100, 999, 1000, 1001, 5000} {
		h.Observe(v)
	}
	r := h.Read()
	if want := []uint64{3, 5, 7}; !slices.Equal(r.Upto, want) || r.Count != 9 || r.Sum != 0+10+11+100+999+1000+1001+5000 {
		t.Errorf("read %+v, want %v", r, want)
	}
	if n := testing.AllocsPerRun(100, func() { h.Observe(50) }); n != 0 {
		t.Errorf("Observe allocates %v times", n)
	}
}

func TestBoundsRise(t *testing.T) {
	for _, bounds := range [][]int64{Lateness, Sync, Work, Sizes} {
		if !slices.IsSorted(bounds) || len(slices.Compact(slices.Clone(bounds))) != len(bounds) {
			t.Errorf("%v do not rise", bounds)
		}
	}
}
