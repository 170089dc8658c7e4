package ttl

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// Lateness is a histogram of how late keys are removed, in ms. It has these buckets: one per
// millisecond below subBuckets, then subBuckets for each doubling.
// So a bucket is never wider than 1/16 of its values. Values above the last doubling (about 70
// years) count in the last bucket.
const (
	subBits     = 4
	subBuckets  = 1 << subBits
	maxDoubling = 41
	numBuckets  = (maxDoubling - subBits + 1) * subBuckets
)

// Lateness counts how late keys were removed: milliseconds from the deadline to
// the removal. The zero value is ready; all methods may be called at any time
// from anywhere. It takes about 5 KB.
type Lateness struct {
	buckets [numBuckets]atomic.Uint64
	sum     atomic.Int64
	max     atomic.Int64
}

// LatenessSnapshot is a reading of a Lateness, in milliseconds. P50 and P99 are upper bounds, at
// most 1/16 too high, and never above Max.
type LatenessSnapshot struct {
	Count    uint64
	Sum      int64
	P50, P99 int64
	Max      int64
}

// Observe counts one removal. A negative ms, as after a clock stepped back, counts as 0.
func (l *Lateness) Observe(ms int64) {
	ms = max(ms, 0)
	l.buckets[bucketOf(ms)].Add(1)
	l.sum.Add(ms)
	for {
		seen := l.max.Load()
		if ms <= seen || l.max.CompareAndSwap(seen, ms) {
			return
		}
	}
}

// Snapshot reads the counters. It may miss observations made meanwhile, but Count, P50 and P99
// always cover the same observations.
func (l *Lateness) Snapshot() LatenessSnapshot {
	var counts [numBuckets]uint64
	s := LatenessSnapshot{Sum: l.sum.Load()}
	for i := range counts {
		counts[i] = l.buckets[i].Load()
		s.Count += counts[i]
	}
	s.Max = l.max.Load()
	s.P50 = min(quantile(&counts, s.Count, 0.50), s.Max)
	s.P99 = min(quantile(&counts, s.Count, 0.99), s.Max)
	return s
}

// bucketOf returns the bucket of ms >= 0. In doubling d, values have d+1 bits. The subBits bits
// below the highest one are the number of the bucket in the doubling.
func bucketOf(ms int64) int {
	if ms < subBuckets {
		return int(ms)
	}
	d := bits.Len64(uint64(ms)) - 1
	if d >= maxDoubling {
		return numBuckets - 1
	}
	shift := d - subBits
	return (shift+1)*subBuckets + int(ms>>shift) - subBuckets
}

// upperBound returns the largest value in bucket i.
func upperBound(i int) int64 {
	if i < subBuckets {
		return int64(i)
	}
	if i == numBuckets-1 {
		return math.MaxInt64
	}
	shift := i/subBuckets - 1
	return int64(subBuckets+i%subBuckets+1)<<shift - 1
}

// quantile returns the upper bound of the bucket that holds the q-th of n values; 0 if n is 0.
func quantile(counts *[numBuckets]uint64, n uint64, q float64) int64 {
	if n == 0 {
		return 0
	}
	rank := max(1, uint64(math.Ceil(q*float64(n))))
	for i, c := range counts {
		if c >= rank {
			return upperBound(i)
		}
		rank -= c
	}
	return math.MaxInt64
}
