package commands

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// durations counts durations in buckets whose width grows with them. Each power of two of
// nanoseconds has 2^subBits buckets of equal width. A percentile is the upper end of a bucket, so
// it is too large by at most 1/32. To count a duration takes one atomic addition. The first
// duration allocates the memory.
//
//	index = (exponent-subBits) << subBits + leading bits     exponent >= subBits
//	index = the value itself                                 below 2^subBits
type durations struct {
	counts atomic.Pointer[[buckets]atomic.Int64]
}

const (
	subBits = 5
	maxBits = 40 // 2^40 ns are 18 minutes; what took longer counts as that
	buckets = (maxBits - subBits + 1) << subBits
)

func (h *durations) add(d time.Duration) {
	counts := h.counts.Load()
	if counts == nil {
		h.counts.CompareAndSwap(nil, new([buckets]atomic.Int64))
		counts = h.counts.Load()
	}
	counts[bucketOf(uint64(max(d, 0)))].Add(1)
}

func bucketOf(ns uint64) int {
	ns = min(ns, 1<<maxBits-1)
	if ns < 1<<subBits {
		return int(ns)
	}
	shift := bits.Len64(ns) - 1 - subBits
	return shift<<subBits + int(ns>>shift)
}

// upper returns the largest value of a bucket, in nanoseconds.
func upper(bucket int) uint64 {
	if bucket < 1<<subBits {
		return uint64(bucket)
	}
	shift := bucket>>subBits - 1
	return (uint64(bucket&(1<<subBits-1)|1<<subBits)+1)<<shift - 1
}

// snapshot copies the counts; total is their sum.
func (h *durations) snapshot() (counts []int64, total int64) {
	src := h.counts.Load()
	if src == nil {
		return nil, 0
	}
	counts = make([]int64, buckets)
	for i := range counts {
		counts[i] = src[i].Load()
		total += counts[i]
	}
	return counts, total
}

// percentile returns the value in nanoseconds below which p percent of all lie.
func percentile(counts []int64, total int64, p float64) uint64 {
	want := int64(p/100*float64(total) + 0.5)
	var seen int64
	last := uint64(0)
	for i, n := range counts {
		if n == 0 {
			continue
		}
		seen += n
		last = upper(i)
		if seen >= max(want, 1) {
			return last
		}
	}
	return last
}

// octave is the number of values below a power of two of nanoseconds.
type octave struct {
	micros     int64 // the bound
	cumulative int64
}

// octaves sums the counts up to each power of two from 1024 ns on. It leaves out powers that add
// nothing.
func octaves(counts []int64) []octave {
	var list []octave
	var sum, listed int64
	for i, n := range counts {
		sum += n
		bound := upper(i) + 1
		if bound < 1024 || bound&(bound-1) != 0 || sum == listed {
			continue
		}
		list = append(list, octave{int64(bound / 1000), sum})
		listed = sum
	}
	return list
}
