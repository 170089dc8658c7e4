// Package histogram counts values in buckets of fixed bounds, and may be read while
// others observe.
//
// # Invariants
//
//   - Observe costs two atomic additions and at most a comparison for each bound; it allocates
//     nothing and waits for nobody.
//   - A reading is consistent in itself: its counts never shrink from one bound to the next, and
//     Count is the number of all values in them. Values observed meanwhile may be missing.
package histogram

import (
	"math"
	"sync/atomic"
)

// Bounds of durations, in microseconds.
var (
	// Lateness has bounds from 0.1 ms to 10 s.
	Lateness = []int64{100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
		500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000}
	// Sync has the bounds of Lateness, and lower ones for fast disks and memory.
	Sync = append([]int64{10, 25, 50}, Lateness...)
	// Work has bounds from 10 ms to 10 minutes, for work in the background.
	Work = []int64{10_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000, 10_000_000, 30_000_000,
		60_000_000, 120_000_000, 300_000_000, 600_000_000}
)

// Sizes has bounds in bytes, from 256 bytes to 256 MiB.
var Sizes = []int64{256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20,
	16 << 20, 64 << 20, 256 << 20}

// Histogram counts values up to each bound. Its methods are safe for concurrent use.
type Histogram struct {
	bounds []int64
	counts []atomic.Uint64 // the last is of what is above all bounds
	sum    atomic.Int64
}

// New returns an empty histogram. The bounds must ascend and must never change.
func New(bounds []int64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// Observe counts a value. A negative value, as after a clock was set back, counts as 0.
func (h *Histogram) Observe(v int64) { h.ObserveMany(v, 1) }

// ObserveMany counts a value n times. A negative value counts as 0.
func (h *Histogram) ObserveMany(v int64, n uint64) {
	v = max(v, 0)
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i].Add(n)
	h.sum.Add(v * int64(n))
}

// Reading is the content of a histogram at one time. Upto has for each of Bounds how many values
// were not above it.
type Reading struct {
	Bounds []int64
	Upto   []uint64
	Count  uint64
	Sum    int64
}

// Read returns the present counts.
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

// Since returns what was observed between an earlier reading of the same histogram and r. If the
// histogram was replaced in between, it returns r.
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

// With returns the sum of r and a reading of another histogram with the same bounds.
func (r Reading) With(other Reading) Reading {
	both := Reading{Bounds: r.Bounds, Upto: make([]uint64, len(r.Upto)),
		Count: r.Count + other.Count, Sum: r.Sum + other.Sum}
	for i := range both.Upto {
		both.Upto[i] = r.Upto[i] + other.Upto[i]
	}
	return both
}

// Quantile returns the lowest bound that a share q of the values does not exceed. It returns
// math.MaxInt64 if there is no such bound, and 0 if there are no values.
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
