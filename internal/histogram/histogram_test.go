package histogram

import (
	"math"
	"slices"
	"testing"

	_ "keyp/internal/testkit/setup"
)

// TestHistogram: a value that equals a bound counts below this bound. Values above all bounds count
// only in Count.
func TestHistogram(t *testing.T) {
	h := New([]int64{10, 100, 1000})
	for _, v := range []int64{-5, 0, 10, 11, 100, 999, 1000, 1001, 5000} {
		h.Observe(v)
	}
	r := h.Read()
	if want := []uint64{3, 5, 7}; !slices.Equal(r.Upto, want) || r.Count != 9 || r.Sum != 0+10+11+
		100+999+1000+1001+5000 {
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

// TestWith: With adds the counts of two histograms.
func TestWith(t *testing.T) {
	a, b := New([]int64{10, 100}), New([]int64{10, 100})
	for _, v := range []int64{5, 50, 500} {
		a.Observe(v)
		b.Observe(v / 10)
	}
	if r := a.Read().With(b.Read()); !slices.Equal(r.Upto, []uint64{3, 5}) || r.Count != 6 ||
		r.Sum != 610 || r.Quantile(0.5) != 10 {
		t.Errorf("%+v", r)
	}
}

// TestSince: Since returns the observations between two readings, with their quantiles. A histogram
// that was replaced has no earlier reading.
func TestSince(t *testing.T) {
	h := New([]int64{10, 100, 1000})
	h.Observe(5)
	before := h.Read()
	for range 98 {
		h.Observe(50)
	}
	h.Observe(500)
	h.Observe(5000)
	d := h.Read().Since(before)
	if d.Count != 100 || d.Sum != 98*50+5500 || !slices.Equal(d.Upto, []uint64{0, 98, 99}) {
		t.Errorf("%+v", d)
	}
	for q, want := range map[float64]int64{0: 100, 0.5: 100, 0.98: 100, 0.99: 1000,
		1: math.MaxInt64} {
		if got := d.Quantile(q); got != want {
			t.Errorf("quantile %v is %d, want %d", q, got, want)
		}
	}
	if (Reading{}).Quantile(0.5) != 0 {
		t.Error("a quantile of nothing")
	}
	fresh := New(h.bounds)
	fresh.Observe(7)
	if d := fresh.Read().Since(before.Since(Reading{})); d.Count != 0 {
		t.Errorf("the same again: %+v", d)
	}
	if d := fresh.Read().Since(h.Read()); d.Count != 1 {
		t.Errorf("replaced: %+v", d)
	}
}
