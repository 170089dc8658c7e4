// Package hist counts latencies in log-linear buckets.
//
// Every power of two is divided into 128 equal buckets, values below 128 have a
// bucket each, so a reported quantile is never below the true one and less than
// 1/128 (0.8%) above it. A histogram has a fixed size of 34 KB, recording costs a
// few instructions and never allocates.
//
//	value (ns)      0 … 127 | 128 … 255 | 256 … 511 | … | 2^39 … 2^40-1
//	bucket width          1 |         1 |         2 | … |          2^32
package hist

import (
	"math"
	"math/bits"
	"time"
)

const (
	subBits = 7
	maxBits = 40
	buckets = (maxBits - subBits + 1) << subBits
)

// Histogram counts durations. The zero value is empty and ready. It is not safe
// for concurrent use: give each goroutine its own and Merge them.
type Histogram struct {
	counts [buckets]uint64
	n      uint64
	max    uint64
}

func bucketOf(v uint64) int {
	if v < 1<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - 1 - subBits
	return min(shift<<subBits+int(v>>shift), buckets-1)
}

// upperEdge is the largest value that falls into bucket i.
func upperEdge(i int) uint64 {
	if i < 1<<subBits {
		return uint64(i)
	}
	shift := i>>subBits - 1
	return uint64(i-shift<<subBits+1)<<shift - 1
}

// Record counts n values of d. A negative d counts as zero; durations of 2^40 ns
// (18 minutes) and more share the last bucket, only Max tells them apart.
func (h *Histogram) Record(d time.Duration, n int) {
	v := uint64(max(d, 0))
	h.counts[bucketOf(v)] += uint64(n)
	h.n += uint64(n)
	h.max = max(h.max, v)
}

// Merge adds the counts of other.
func (h *Histogram) Merge(other *Histogram) {
	for i, c := range other.counts {
		h.counts[i] += c
	}
	h.n += other.n
	h.max = max(h.max, other.max)
}

// Count is the number of recorded values.
func (h *Histogram) Count() uint64 { return h.n }

// Max is the largest recorded value, exact; 0 when nothing is recorded.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max) }

// Quantile is the value that a share q (0 to 1) of the recorded values does not
// exceed: the upper edge of its bucket, at most Max; 0 when nothing is recorded.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank := max(uint64(math.Ceil(q*float64(h.n))), 1)
	var seen uint64
	for i, c := range h.counts[:buckets-1] {
		seen += c
		if seen >= rank {
			return time.Duration(min(upperEdge(i), h.max))
		}
	}
	return time.Duration(h.max)
}
