package ttl

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// TestLatenessBuckets: the buckets of the histogram of lateness cover all values without gap or
// overlap, and are as narrow as documented.
func TestLatenessBuckets(t *testing.T) {
	low := int64(0)
	for i := range numBuckets {
		high := upperBound(i)
		if bucketOf(low) != i || bucketOf(high) != i {
			t.Fatalf("bucket %d is [%d, %d], but these are in %d and %d", i, low, high,
				bucketOf(low), bucketOf(high))
		}
		if i < numBuckets-1 && (high-low)*16 > low {
			t.Errorf("bucket %d is too wide: [%d, %d]", i, low, high)
		}
		low = high + 1
	}
	if upperBound(numBuckets-1) != math.MaxInt64 {
		t.Error("the last bucket has an end")
	}
}

func TestLatenessSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 1<<40), 1, 200).Draw(t, "values")
		var l Lateness
		sum := int64(0)
		for _, v := range values {
			l.Observe(v)
			sum += v
		}
		slices.Sort(values)
		s := l.Snapshot()
		if s.Count != uint64(len(values)) || s.Sum != sum || s.Max != values[len(values)-1] {
			t.Fatalf("%+v of %v", s, values)
		}
		exact := func(q float64) int64 { return values[int(math.Ceil(q*float64(len(values))))-1] }
		for _, p := range []struct{ got, exact int64 }{{s.P50, exact(0.5)}, {s.P99, exact(0.99)}} {
			if p.got < p.exact || p.got > p.exact+p.exact/16 {
				t.Fatalf("quantile %d, exactly %d, of %v", p.got, p.exact, values)
			}
		}
	})
}

func TestLatenessEdges(t *testing.T) {
	var l Lateness
	if s := l.Snapshot(); s != (LatenessSnapshot{}) {
		t.Errorf("empty: %+v", s)
	}
	l.Observe(-5) // the clock was stepped back
	if s := l.Snapshot(); s != (LatenessSnapshot{Count: 1}) {
		t.Errorf("negative: %+v", s)
	}
	l.Observe(math.MaxInt64)
	if s := l.Snapshot(); s.Max != math.MaxInt64 || s.P99 != math.MaxInt64 || s.P50 != 0 {
		t.Errorf("largest: %+v", s)
	}
}

func TestLatenessConcurrent(t *testing.T) {
	const goroutines, each = 4, 5000
	var l Lateness
	var wg sync.WaitGroup
	for g := range uint64(goroutines) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(g, 0))
			for range each {
				l.Observe(rng.Int64N(1000))
			}
		})
	}
	wg.Wait()
	if s := l.Snapshot(); s.Count != goroutines*each || s.Max > 999 {
		t.Errorf("%+v", s)
	}
}
