package hist

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "keyp/internal/testkit/setup"
)

func TestBucketsAreContiguous(t *testing.T) {
	for i := range buckets - 1 {
		edge := upperEdge(i)
		if got := bucketOf(edge); got != i {
			t.Fatalf("upper edge %d of bucket %d falls into bucket %d", edge, i, got)
		}
		if got := bucketOf(edge + 1); got != i+1 {
			t.Fatalf("%d, one past bucket %d, falls into bucket %d", edge+1, i, got)
		}
	}
	if got := bucketOf(1<<maxBits - 1); got != buckets-1 {
		t.Fatalf("largest value falls into bucket %d of %d", got, buckets)
	}
}

// A quantile is never below the exact one and at most 1/128 above it.
func TestQuantileWithinItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 1<<maxBits-1), 1, 500).Draw(t, "values")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		// Drawn on several goroutines' histograms in a real run: split and merge.
		var whole, part Histogram
		for i, v := range values {
			h := &whole
			if i%2 == 1 {
				h = &part
			}
			h.Record(time.Duration(v), 1)
		}
		whole.Merge(&part)

		slices.Sort(values)
		rank := max(int(math.Ceil(q*float64(len(values)))), 1)
		exact := values[rank-1]
		got := int64(whole.Quantile(q))
		if got < exact || float64(got) > float64(exact)*(1+1.0/128) {
			t.Fatalf("quantile %v = %d, exact %d", q, got, exact)
		}
		if want := values[len(values)-1]; int64(whole.Max()) != want || whole.Quantile(1) > whole.Max() {
			t.Fatalf("max = %d and q(1) = %d, exact %d", whole.Max(), whole.Quantile(1), want)
		}
		if whole.Count() != uint64(len(values)) {
			t.Fatalf("count = %d, recorded %d", whole.Count(), len(values))
		}
	})
}

func TestEdges(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Max() != 0 || h.Count() != 0 {
		t.Fatalf("an empty histogram reports %v, %v, %d", h.Quantile(0.5), h.Max(), h.Count())
	}
	h.Record(-time.Second, 1)
	if h.Quantile(1) != 0 || h.Count() != 1 {
		t.Fatalf("a negative duration: q(1) = %v, count %d", h.Quantile(1), h.Count())
	}
	h.Record(time.Hour, 1)
	if h.Max() != time.Hour || h.Quantile(1) != time.Hour {
		t.Fatalf("beyond the last bucket: max %v, q(1) %v", h.Max(), h.Quantile(1))
	}
	h = Histogram{}
	h.Record(time.Millisecond, 99)
	h.Record(time.Second, 1)
	if got := h.Quantile(0.99); got < time.Millisecond || got > 1010*time.Microsecond {
		t.Fatalf("p99 of 99 x 1 ms and 1 x 1 s is %v", got)
	}
	if got := h.Quantile(0.999); got != time.Second {
		t.Fatalf("p99.9 of 99 x 1 ms and 1 x 1 s is %v", got)
	}
}
