package ttl

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/google/btree"
)

// million is the size at which the index is measured, that of one shard of a large store.
const million = 1 << 20

// indexOfDegree is NewIndex with a different degree, to measure the choice of degree.
func indexOfDegree(d int) *Index {
	return &Index{tree: btree.NewG(d, Entry.Before)}
}

// filled returns an index with n random deadlines and the deadline of each id.
func filled(x *Index, n int, rng *rand.Rand) []int64 {
	deadlines := make([]int64, n)
	for id := range deadlines {
		deadlines[id] = 1 + rng.Int64N(1<<40)
		x.Set(uint64(id), None, deadlines[id])
	}
	return deadlines
}

func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkIndex is the ground for the constant degree:
//
//	go test ./ttl -run '^$' -bench Index
func BenchmarkIndex(b *testing.B) {
	for _, d := range []int{8, 16, 32, 64, 128} {
		b.Run(fmt.Sprintf("degree=%d", d), func(b *testing.B) {
			benchmarkIndex(b, func() *Index { return indexOfDegree(d) })
		})
	}
	b.Run("counted", func(b *testing.B) { benchmarkIndex(b, NewCounted) })
}

func benchmarkIndex(b *testing.B, empty func() *Index) {
	rng := rand.New(rand.NewPCG(1, 2))
	before := heapBytes()
	x := empty()
	deadlines := filled(x, million, rng)
	perEntry := float64(heapBytes()-before)/million - 8 // without deadlines itself

	b.Run("replace", func(b *testing.B) { // EXPIRE on keys that have a deadline
		for b.Loop() {
			id := rng.IntN(million)
			d := 1 + rng.Int64N(1<<40)
			x.Set(uint64(id), deadlines[id], d)
			deadlines[id] = d
		}
		b.ReportMetric(perEntry, "B/entry")
	})
	b.Run("renew", func(b *testing.B) { // sessions: always to the end
		now := int64(1 << 41)
		for b.Loop() {
			id := rng.IntN(million)
			now++
			x.Set(uint64(id), deadlines[id], now)
			deadlines[id] = now
		}
	})
	b.Run("set+remove", func(b *testing.B) { // a key that comes and goes
		id := uint64(million)
		for b.Loop() {
			id++
			d := 1 + rng.Int64N(1<<40)
			x.Set(id, None, d)
			x.Set(id, d, None)
		}
	})
	b.Run("pop", func(b *testing.B) {
		y := empty()
		filled(y, million, rng)
		for b.Loop() {
			if _, ok := y.PopDue(1 << 62); !ok {
				b.StopTimer()
				filled(y, million, rng)
				b.StartTimer()
			}
		}
	})
}

// BenchmarkNext measures Next, which the reaper and every Wake call.
func BenchmarkNext(b *testing.B) {
	x := NewIndex()
	x.Set(1, None, 5)
	for b.Loop() {
		if _, ok := x.Next(); !ok {
			b.Fatal("empty")
		}
	}
}
