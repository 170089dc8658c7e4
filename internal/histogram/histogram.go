// Package histogram counts values in buckets of fixed bounds, and may be read while
// others observe.
//
// # Invariants
//
//   - Observe costs two atomic additions and at most a comparison for each bound; it allocates
//     nothing and waits for nobody.
//   - A reading is consistent in itself: its counts never shrink from one bound to the next, and
//     Count is that of all values in them. Values that are observed meanwhile are in it or not.
package histogram

import (
	"math"
	"sync/atomic"
)

// Bounds of durations, in microseconds.
var (
	// Lateness is from 0.1 ms to 10 s.
	Lateness = []int64{100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
		500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000}
	// Sync is Lateness, and below it what fast disks and memory take.
	Sync = append([]int64{10, 25, 50}, Lateness...)
	// Work is from 10 ms to 10 minutes, for work in the background.
	Work = []int64{10_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000, 10_000_000, 30_000_000,
		60_000_000, 120_000_000, 300_000_000, 600_000_000}
)

// Sizes are bounds in bytes, from 256 to 256 MiB.
var Sizes = []int64{256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20,
	16 << 20, 64 << 20, 256 << 20}

// Histogram counts values up to each bound. All methods may be called at any time from anywhere.
type Histogram struct {
	bounds []int64
	counts []atomic.Uint64 // the last is of what is above all bounds
	sum    atomic.Int64
}

// New returns an empty histogram; the bounds rise, and are never changed.
func New(bounds []int64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// Observe counts a value. One below zero, as a clock that was set back gives, is 0.
func (h *Histogram) Observe(v int64) { h.ObserveMany(v, 1) }

// ObserveMany counts a value n times.
func (h *Histogram) ObserveMany(v int64, n uint64) {
	v = max(v, 0)
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i].Add(n)
	h.sum.Add(v * int64(n))
}

// Reading is what a histogram had counted at some instant. Upto has, for each of Bounds, how many
// values were not above it.
type Reading struct {
	Bounds []int64
	Upto   []uint64
	Count  uint64
	Sum    int64
}

// Read reads the counters.
func (h *Histogram) Read() Reading {
	r := Reading{Bounds: h.bounds, Upto: make([]uint64, len(h.bounds)), Sum: h.sum.Load()}
	for i := range h.counts {
		r.Count += h.counts[i].Load()
		if i < len(r.Upto) {
			r.Upto[i] = r.Count
		}
	}
	return r
}

// Since is what was observed between an earlier reading of the same histogram and this one. If the
// histogram was replaced in between, that is all of this one.
func (r Reading) Since(earlier Reading) Reading {
	if earlier.Count > r.Count || len(earlier.Upto) != len(r.Upto) {
		return r
	}
	d := Reading{Bounds: r.Bounds, Upto: make([]uint64, len(r.Upto)),
		Count: r.Count - earlier.Count, Sum: r.Sum - earlier.Sum}
	for i := range r.Upto {
		if d.Upto[i] = r.Upto[i] - earlier.Upto[i]; earlier.Upto[i] > r.Upto[i] {
			return r
		}
	}
	return d
}

// With is what this histogram and another one of the same bounds have counted together.
func (r Reading) With(other Reading) Reading {
	both := Reading{Bounds: r.Bounds, Upto: make([]uint64, len(r.Upto)),
		Count: r.Count + other.Count, Sum: r.Sum + other.Sum}
	for i := range both.Upto {
		both.Upto[i] = r.Upto[i] + other.Upto[i]
	}
	return both
}

// Quantile is the bound that a share q of the values is not above, math.MaxInt64 if all bounds are
// below that; 0 without values.
func (r Reading) Quantile(q float64) int64 {
	if r.Count == 0 {
		return 0
	}
	rank := max(1, uint64(math.Ceil(q*float64(r.Count))))
	for i, n := range r.Upto {
		if n >= rank {
			return r.Bounds[i]
		}
	}
	return math.MaxInt64
}
